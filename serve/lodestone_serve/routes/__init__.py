"""The routes, one module a subject. Each builds its router from what it is given; none keeps state."""
