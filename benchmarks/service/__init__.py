"""Benchmarks of the service over HTTP: latency, load, overload, shared model passes, scaling and faults."""
