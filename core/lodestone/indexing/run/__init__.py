"""Index runs: scan, embed and synchronise one corpus, resumable at every point."""
