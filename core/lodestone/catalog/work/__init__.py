"""The catalog's tables of runs, model swaps and trained artifacts."""
