"""Pictures in a terminal: what it can show, the encoders of its protocols, and the grid of an answer."""
