"""The embedded vector store: the adapter over qdrant-edge."""
