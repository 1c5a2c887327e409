"""Further processes of a service on one machine: each answers searches with an engine of its own; one owns the home.

`pool` starts them and hands searches to them, `worker` is what they run, and `messages` is what both send each other.
"""
