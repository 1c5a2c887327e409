"""From words to ranked pictures."""
