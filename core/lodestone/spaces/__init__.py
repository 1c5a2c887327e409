"""Projections from backbone outputs (and texts) to searchable vectors."""
