"""Catalog: the SQL database of all facts about pictures, runs and collections, except the vectors."""
