"""Figures beside their peers. `make bench` runs them all; none of them is a test."""
