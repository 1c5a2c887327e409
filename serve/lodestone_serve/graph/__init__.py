"""The query graph on Ray Serve: it defines which stages are separate deployments, and how they are called."""
