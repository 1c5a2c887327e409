"""Backbones: frozen image models that turn pixels into named outputs."""
