"""Composed queries: several pictures and words in one query, each with a weight, ranked by one joint similarity."""
