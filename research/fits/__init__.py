"""Fits of the weights that ship, and the measurement of what was fitted."""
