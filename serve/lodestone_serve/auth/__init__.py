"""Authentication: API keys, OpenID Connect tokens and the principal of a request."""
