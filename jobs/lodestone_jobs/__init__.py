"""Ray Data hosts of Lodestone's bulk work. The work itself is in `lodestone`."""
