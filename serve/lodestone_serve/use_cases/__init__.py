"""The use cases behind the routes."""
