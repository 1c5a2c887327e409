"""Open-loop load generator over real HTTP, with summaries, plots and recovery times of its outcomes."""
