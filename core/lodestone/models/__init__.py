"""Converted model files, cached between homes."""
