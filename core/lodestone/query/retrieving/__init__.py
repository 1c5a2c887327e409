"""What a query finds by itself: its leaves as vectors, the weights of its spaces, and what use has taught."""
