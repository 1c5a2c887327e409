"""Answers that are sent piece by piece: server-sent events of a query, lines of a batch, progress of a sync."""
