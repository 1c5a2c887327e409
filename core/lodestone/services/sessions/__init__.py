"""The processes that use cases run in: an opened home with its engine, in a service or in a command, and its upkeep."""
