"""Sections of documentation pages that figures are written into, as `benchmarks.harness.pages` does it."""

from benchmarks.harness.pages import put

__all__ = ["put"]
