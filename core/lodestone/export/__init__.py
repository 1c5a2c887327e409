"""Export of a home's vectors, facts, captions and pictures to Parquet files or WebDataset archives."""
