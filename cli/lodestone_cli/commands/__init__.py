"""Commands of `lodestone`, one module for each command or group."""
