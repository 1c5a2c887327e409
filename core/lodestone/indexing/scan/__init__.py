"""Scanning: compare what a source lists with what the catalog knows."""
