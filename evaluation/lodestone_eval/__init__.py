"""Measurement of search quality: readers of benchmarks, runners, metrics and reports."""
