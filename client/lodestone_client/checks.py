"""Checks of a response: its media type, its size and the time that it takes."""

from __future__ import annotations

import httpx

from lodestone_client.call import Answer
from lodestone_client.connection import MOST_BYTES
from lodestone_client.problems import FailedResponse, foreign, unavailable
from lodestone_client.retrying import RetryState


def check_progress(size: int, patience: RetryState, url: str) -> None:
    """Raise for an answer that grows too large or takes too long."""
    if patience.seconds is not None and patience.elapsed > patience.seconds:
        raise FailedResponse(unavailable(url, f"its answer was not complete after {patience.seconds:g} seconds"), fatal=True)
    if size > MOST_BYTES:
        raise FailedResponse(unavailable(url, f"its answer is larger than {MOST_BYTES >> 20} MB"), fatal=True)


def check_kind(answer: httpx.Response, kind: str, url: str) -> None:
    """Raise for a stream that is not of the media type `kind`."""
    if Answer(b"", answer.headers).media_type != kind:
        raise foreign(answer, url, f"expected {kind}")
