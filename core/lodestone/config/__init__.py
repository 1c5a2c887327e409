"""Settings with the source of each value, profiles, and the layout of a home."""
