"""Names of the places where pictures were taken."""
