"""Weights of spaces: fitted to the words of a query, and multiplied by trust."""
