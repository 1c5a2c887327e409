"""Metrics, splits and runners that measure quality."""
