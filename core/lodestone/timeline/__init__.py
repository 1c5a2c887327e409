"""Names of the days on which pictures were taken."""
