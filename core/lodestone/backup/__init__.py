"""Backups of whole homes and clusters: the catalog, the embeddings and learnt artifacts. Collections are rebuilt from these."""
