"""The catalog's tables of the service: API keys and idempotent writes."""
