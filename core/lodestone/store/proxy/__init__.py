"""Vector store of another process of this machine: `host` answers calls over pipes, and `client` makes them."""
