"""Text encoders and language models."""
