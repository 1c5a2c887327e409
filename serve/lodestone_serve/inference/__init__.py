"""Model passes that concurrent queries share."""
