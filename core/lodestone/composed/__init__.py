"""Composed queries: words and pictures in one query, a weight for each, and one joint similarity (MUST, Wang et al., 2024)."""
