"""Notes of one query: what failed or was left out in its guide engines and optional stages, and what guides cost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lodestone.errors import LodestoneError

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class QueryNotes:
    """`warnings` for failures, `dropped` for what there was no time, budget or need for, each said once; `cost`: charged."""

    warnings: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    cost: float = 0.0

    def failed(self, what: str) -> None:
        """Note what failed, once."""
        if what not in self.warnings:
            self.warnings.append(what)

    def left_out(self, what: str) -> None:
        """Note what was left out, once."""
        if what not in self.dropped:
            self.dropped.append(what)

    @contextmanager
    def doing_without(self, step: str, failure: str) -> Iterator[None]:
        """Run a step that the answer can do without: what it raises is noted here and goes no further.

        Args:
            step: The step, as the note on one that comes too late names it.
            failure: What its failure costs; the note says why.
        """
        try:
            yield
        except TimeoutError:
            self.left_out(f"{step}: out of time")
        except Exception as error:  # noqa: BLE001  (models, engines and filters raise anything; the answer stands)
            self.failed(f"{failure}: {describe_failure(error)}")


def describe_failure(error: Exception) -> str:
    """Return the description of a stage's failure for the answer's warnings, and log the failure.

    An unexpected error is logged with its traceback, and named by its type only.
    """
    if isinstance(error, LodestoneError):
        _log.warning("a stage that answers can do without failed: %s", error.message)
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    _log.error("a stage that answers can do without failed", exc_info=error)
    return f"an unexpected {type(error).__name__}, which the log describes"
