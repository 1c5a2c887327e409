"""Directories that a home indexes: managing them, watching them, and indexing them in the background."""
