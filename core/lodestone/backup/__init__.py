"""Backups of whole homes and clusters: the catalog, the embeddings, what was learnt. Collections are made again from these."""
