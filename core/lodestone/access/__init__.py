"""Access control: API keys, visibility of corpora and queries, redaction of secrets."""
