"""Generators of guides: pictures or vectors that a query might look like."""
