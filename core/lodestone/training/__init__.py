"""Training of projections and weights from captions and use."""
