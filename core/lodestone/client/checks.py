"""Is this answer what was asked for? Its media type, its size, and the time that it takes to come."""

from __future__ import annotations

import httpx

from lodestone.client.call import Answer
from lodestone.client.connection import MOST_BYTES
from lodestone.client.problems import Failed, foreign, unavailable
from lodestone.client.retrying import Patience


def check_progress(size: int, patience: Patience, url: str) -> None:
    """An answer that trickles in for ever, or never ends, is none."""
    if patience.seconds is not None and patience.elapsed > patience.seconds:
        raise Failed(unavailable(url, f"its answer was not complete after {patience.seconds:g} seconds"), fatal=True)
    if size > MOST_BYTES:
        raise Failed(unavailable(url, f"its answer is larger than {MOST_BYTES >> 20} MB"), fatal=True)


def check_kind(answer: httpx.Response, kind: str, url: str) -> None:
    """A stream must be of the media type `kind`."""
    if Answer(b"", answer.headers).media_type != kind:
        raise foreign(answer, url, f"expected {kind}")
