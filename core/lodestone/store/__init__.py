"""Vector stores: the contract, the embedded adapter (qdrant-edge) and the server adapter (Qdrant)."""
