"""Text encoders, which turn texts into vectors."""
