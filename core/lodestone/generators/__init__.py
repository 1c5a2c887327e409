"""Guides: what a query might look like."""
