"""Projections: backbone outputs (and texts) to searchable vectors."""
