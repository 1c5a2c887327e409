"""Backbone outputs on disk, in immutable Parquet slices."""
