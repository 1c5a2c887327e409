"""Benchmarks of indexing: speed, memory, resuming, loading and planning."""
