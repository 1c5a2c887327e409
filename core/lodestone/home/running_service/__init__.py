"""The service that runs for a home: its address, and the client by which commands of the same machine use it."""
