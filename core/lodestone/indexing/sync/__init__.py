"""Synchronising: bring the vector collections in line with catalog and Parquet files."""
