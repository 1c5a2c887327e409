"""Answering of queries: from words, pictures and trees of them to ranked pictures."""
