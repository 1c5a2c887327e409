"""Evaluation of composed queries: benchmarks of pictures with words, vectors in MUST's own files, their metrics and reports."""
