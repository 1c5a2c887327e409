"""Ray hosts of Lodestone's bulk work; the work itself is in `lodestone`."""
