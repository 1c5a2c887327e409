"""Planner for machines, time and storage of a collection: measured rates, plain formulas, and a simulation."""
