"""Readers of published benchmarks: a folder in its published layout becomes an `EvalSet`."""
