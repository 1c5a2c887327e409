"""Backbone outputs on disk: immutable Parquet slices."""
