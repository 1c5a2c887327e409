"""What feedback teaches about the spaces: a weight for each, topic by topic."""
