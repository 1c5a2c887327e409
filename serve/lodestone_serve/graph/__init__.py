"""The query graph on Ray Serve: which stages are deployments of their own, and how they are asked."""
