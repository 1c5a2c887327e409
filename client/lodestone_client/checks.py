"""Is this answer what was asked for? Its media type, its size, and the time that it takes to come."""

from __future__ import annotations

import httpx

from lodestone_client.call import Answer
from lodestone_client.connection import MOST_BYTES
from lodestone_client.problems import FailedResponse, foreign, unavailable
from lodestone_client.retrying import RetryState


def check_progress(size: int, patience: RetryState, url: str) -> None:
    """An answer that trickles in for ever, or never ends, is none."""
    if patience.seconds is not None and patience.elapsed > patience.seconds:
        raise FailedResponse(unavailable(url, f"its answer was not complete after {patience.seconds:g} seconds"), fatal=True)
    if size > MOST_BYTES:
        raise FailedResponse(unavailable(url, f"its answer is larger than {MOST_BYTES >> 20} MB"), fatal=True)


def check_kind(answer: httpx.Response, kind: str, url: str) -> None:
    """A stream must be of the media type `kind`."""
    if Answer(b"", answer.headers).media_type != kind:
        raise foreign(answer, url, f"expected {kind}")
