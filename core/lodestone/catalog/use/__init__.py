"""The catalog's tables of use: recorded queries, tags, trust and switched guide engines."""
