"""Embedding: cut pictures into slices, run the backbones, write Parquet files and receipts."""
