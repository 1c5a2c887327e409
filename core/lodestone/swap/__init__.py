"""Model swaps: another model behind a space, without a moment in which nothing can be found."""
