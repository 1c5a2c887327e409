"""How long a query of a test may take: longer than the default, for machines on which everything takes long."""

from __future__ import annotations

DEADLINE_MS = 60_000  # of a query that names no deadline; with a deadline of its own, a test says what happens then
