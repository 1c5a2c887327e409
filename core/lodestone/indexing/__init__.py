"""Stages of the index job, without Ray: they find, embed, load, verify and promote the pictures of a corpus."""
