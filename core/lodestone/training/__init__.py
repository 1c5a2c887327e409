"""Training of projections and weights from captions and from use."""
