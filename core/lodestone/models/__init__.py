"""Converted model files, cached between homes, and what is needed to find and run models."""
