"""Automatic tagging of single pictures: labels, technical quality and a safety score."""
