"""Tests of the decoder of server-sent events, against the examples and rules of the WHATWG standard."""

from __future__ import annotations

import random

import pytest

from lodestone_client.server_sent_events import EventDecoder, Message


def decoded(*chunks: bytes) -> list[Message]:
    decoder = EventDecoder()
    return [message for chunk in chunks for message in decoder.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "messages"),
    [
        (b"data: one\n\n", [Message("one", "")]),
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Message("YHOO\n+2\n10", "")]),
        (
            b": comment\n\ndata: first\nid: 1\n\ndata:second\nid\n\ndata:  third\n\n",
            [Message("first", "1"), Message("second", ""), Message(" third", "")],
        ),
        (b"id: 7\ndata: a\n\ndata: b\n\n", [Message("a", "7"), Message("b", "7")]),
        (b"event: x\nretry: 5\ndata\n\n", [Message("", "")]),
        (b"event: only\n\n", []),
        (b"id: a\0b\ndata: x\n\n", [Message("x", "")]),
        (b"data: cut off\n", []),
        (b"\xef\xbb\xbfdata: marked\n\n", [Message("marked", "")]),
        ("data: déjà\u2028vu\n\n".encode(), [Message("déjà\u2028vu", "")]),
    ],
    ids=[
        "one",
        "lines",
        "comment-and-ids",
        "id-stays",
        "empty-data",
        "no-data",
        "id-with-null",
        "cut-off",
        "mark",
        "separators",
    ],
)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_messages_are_those_of_the_standard_however_the_bytes_arrive(
    stream: bytes, messages: list[Message], line_end: bytes
) -> None:
    stream = stream.replace(b"\n", line_end)
    if line_end == b"\r":
        stream += b": a byte after the last line, so that it is known to end\r"
    cuts = sorted(random.Random(3).sample(range(len(stream)), min(5, len(stream))))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert decoded(stream) == messages
    assert decoded(*(stream[place : place + 1] for place in range(len(stream)))) == messages
    assert decoded(*pieces) == messages
