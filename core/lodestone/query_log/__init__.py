"""The query log: recorded queries, their explanation and their replay."""
