"""Command line of Lodestone. Commands import what they need when they run."""

import time
from typing import Final

IMPORTED_AT: Final = time.monotonic()
"""When this package was imported, on the clock of `time.monotonic()`: the `lodestone` script begins with that."""
