"""The HTTP service: a FastAPI ingress on Ray Serve. Imports core and schemas only."""
