"""Benchmarks: figures measured beside their peers, by subject. None of them is a test; `make bench` runs the regular ones.

The modules lie in folders by subject (`device`, `indexing`, `query`, `service`). The folders are on this package's path, so
that the subject may be left out of a command: `python -m benchmarks.indexing.load` runs `benchmarks/indexing/load.py`.
"""

from pathlib import Path

SUBJECTS = ("device", "indexing", "query", "service")

__path__ += [str(Path(__file__).parent / subject) for subject in SUBJECTS]
