"""Embedding from the driver: cut pictures into slices, hand them to workers, retry, and record their receipts."""
