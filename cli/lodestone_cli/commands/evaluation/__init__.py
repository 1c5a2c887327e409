"""Commands `lodestone eval …`, the only ones that import `lodestone_eval`."""
