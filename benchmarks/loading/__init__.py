"""An open-loop load generator over real HTTP, and what is made of its outcomes: tables, plots, recovery times."""
