"""Words of queries: their spelling, their language, and what is said about both."""
