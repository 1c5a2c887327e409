"""Model swaps: another model behind a space, while searches continue without interruption."""
