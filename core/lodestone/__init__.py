"""Lodestone: find pictures by what you mean. The library; nothing heavy happens at import."""

__version__ = "0.1.0"
