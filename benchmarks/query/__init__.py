"""Benchmarks of queries in one process: latency, start-up time, outlier filter and early stopping."""
