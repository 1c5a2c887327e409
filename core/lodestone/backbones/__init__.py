"""Frozen image models: pixels to named outputs."""
