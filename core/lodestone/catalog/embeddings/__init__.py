"""The catalog's tables of slices: receipts, loads, attempts and compaction."""
