"""Settings, where each came from, and the layout of a home."""
