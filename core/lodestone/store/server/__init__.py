"""The vector store on a Qdrant server or cluster: the adapter over qdrant-client."""
