"""How many machines, hours and gigabytes does a collection need? Measured rates, plain formulas, and a simulation."""
