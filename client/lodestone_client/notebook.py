"""Display of answers in a notebook: HTML that holds small pictures, fetched with the client's key when an answer is shown."""

from __future__ import annotations

import base64
import time
import unicodedata
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from typing import Any, Final, TypeVar

import httpx

from lodestone_client.calls import part
from lodestone_client.connection import Connection
from lodestone_schemas.api import DoneEvent, Hit, ImageInfo, ImagePage, ResultsEvent, SearchResponse
from lodestone_schemas.batch import BatchAnswer
from lodestone_schemas.errors import LodestoneError

T = TypeVar("T")

MOST_PICTURES: Final = 24  # of one answer: they become part of the notebook's file
MOST_BYTES: Final = 512 << 10  # of one picture
SECONDS: Final = 10.0  # for the pictures of one answer; the notebook waits for them
_THREADS: Final = 8
_MOST_CHARS: Final = 160  # of a caption or a note
_MOST_NOTES: Final = 6
# Raster formats alone: an SVG may hold scripts. Of WebP, the name stands after the length.
_SIGNATURES: Final = ((b"\xff\xd8\xff", "jpeg"), (b"\x89PNG\r\n", "png"), (b"GIF8", "gif"), (b"RIFF", "webp"))

_GRID: Final = "display:flex;flex-wrap:wrap;gap:12px;margin:8px 0"
_CARD: Final = "margin:0;width:{side}px;font:12px/1.4 sans-serif;overflow-wrap:anywhere"
_BOX: Final = "width:{side}px;height:{side}px;box-sizing:border-box;border-radius:4px"
_EMPTY: Final = "border:1px dashed;opacity:.6;padding:8px;overflow:hidden"
_NOTE: Final = "font:12px/1.4 sans-serif;opacity:.8"
_SIDE: Final = 176  # pixels of a picture in an answer
_SIDE_ALONE: Final = 320


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A fetched picture as a `data:` URI, or the reason why there is none."""

    uri: str = ""
    problem: str = ""


class NotebookDisplay:
    """Shows answers, hits and facts of pictures as HTML. The HTML holds neither the key nor the address of the service.

    Pictures are fetched by connections of their own, which end with the fetching: so answers of a client that is closed,
    and those of an asynchronous one, can be shown as well.

    Args:
        connection: The service, and how the client reaches it.
        transport: The client's own transport, if its caller gave one; an asynchronous one cannot fetch pictures here.
    """

    def __init__(self, connection: Connection, transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None = None) -> None:
        self._connection = connection
        self._transport = transport

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.url!r})"

    def __deepcopy__(self, _: object) -> NotebookDisplay:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the display, which holds the key, out of pickled answers."""
        return type(None), ()

    def attached(self, value: T) -> T:
        """Return `value`; answers in it, and their hits, are shown by this display from now on."""
        if isinstance(value, SearchResponse):
            value.displayed_by(self)
            for hit in value.hits:
                hit.displayed_by(self)
        elif isinstance(value, ImageInfo):
            value.displayed_by(self)
        elif isinstance(value, ImagePage):
            for image in value.images:
                image.displayed_by(self)
        elif isinstance(value, (ResultsEvent, DoneEvent, BatchAnswer)):
            self.attached(value.response)
        return value

    def __call__(self, shown: SearchResponse | Hit | ImageInfo) -> str:
        """Return HTML without scripts and style sheets; every text of the service in it is escaped."""
        if isinstance(shown, SearchResponse):
            pictured = shown.hits[:MOST_PICTURES]
            return _answer(shown, pictured, self.fetch([hit.image_id for hit in pictured]))
        return _card(shown, self.fetch([shown.image_id])[shown.image_id], _SIDE_ALONE)

    def fetch(self, image_ids: Sequence[str]) -> dict[str, Thumbnail]:
        """Return image id -> thumbnail, fetched side by side. A failure is told in its picture's place, and raises nothing."""
        if self._transport is not None and not isinstance(self._transport, httpx.BaseTransport):
            return dict.fromkeys(image_ids, Thumbnail(problem="its client has a transport of its own"))
        end = time.monotonic() + SECONDS
        try:
            http = httpx.Client(
                base_url=self._connection.url,
                headers=dict(self._connection.headers),
                verify=self._connection.tls,
                trust_env=self._connection.proxies,
                transport=self._transport,
            )
        except LodestoneError as error:
            return dict.fromkeys(image_ids, Thumbnail(problem=error.message))
        try:
            with ThreadPoolExecutor(_THREADS) as threads:
                found = threads.map(lambda image_id: self._fetched(http, image_id, end), image_ids)
                return dict(zip(image_ids, found, strict=True))
        finally:
            if self._transport is None:  # closing would close a transport that is somebody else's
                http.close()

    def _fetched(self, http: httpx.Client, image_id: str, end: float) -> Thumbnail:
        content = bytearray()
        left = end - time.monotonic()
        if left <= 0:
            return Thumbnail(problem="no time was left")
        try:
            with http.stream("GET", f"/v1/images/{part(image_id)}/thumbnail", timeout=self._connection.timeout(left)) as answer:
                if not answer.is_success:
                    return Thumbnail(problem=f"the service answered {answer.status_code}")
                for chunk in answer.iter_bytes():
                    content += chunk
                    if len(content) > MOST_BYTES or time.monotonic() > end:
                        return Thumbnail(problem="it is too large, or came too slowly")
        except (httpx.HTTPError, RuntimeError) as error:  # RuntimeError: a transport that was closed
            return Thumbnail(problem=f"the service cannot be reached ({type(error).__name__})")
        return _as_uri(bytes(content))


def _as_uri(content: bytes) -> Thumbnail:
    for signature, kind in _SIGNATURES:
        if content.startswith(signature) and (kind != "webp" or content[8:12] == b"WEBP"):
            return Thumbnail(f"data:image/{kind};base64,{base64.b64encode(content).decode()}")
    return Thumbnail(problem="what the service sent is no JPEG, PNG, GIF or WebP")


def _answer(response: SearchResponse, pictured: Sequence[Hit], thumbnails: Mapping[str, Thumbnail]) -> str:
    cards = "".join(_card(hit, thumbnails[hit.image_id], _SIDE) for hit in pictured)
    notes = "".join(f'<div style="{_NOTE}">{_text(note)}</div>' for note in _notes(response, len(pictured)))
    return f'<div>{notes}<div style="{_GRID}">{cards}</div></div>'


def _notes(response: SearchResponse, pictured: int) -> list[str]:
    count = len(response.hits)
    notes = [f"{count} picture{'' if count == 1 else 's'}{', and more on the next page' if response.next_offset else ''}"]
    if count > pictured:
        notes[0] += f"; the first {pictured} are shown"
    if response.corrected_query is not None:
        notes.append(f"Searched for: {response.corrected_query}")
    if response.probably_nothing:
        notes.append("Probably no picture shows what was asked.")
    if response.dropped:
        notes.append(f"Left out: {', '.join(response.dropped)}")
    return [*notes, *response.warnings][:_MOST_NOTES]


def _card(shown: Hit | ImageInfo, thumbnail: Thumbnail, side: int) -> str:
    place = f"{shown.corpus}/{shown.root}/{shown.uri}"
    caption = next((caption for caption in shown.captions if caption.strip()), "")
    box = _BOX.format(side=side)
    if thumbnail.uri:
        picture = f'<img src="{thumbnail.uri}" alt="{_text(caption or place)}" style="{box};object-fit:contain">'
    else:
        picture = f'<div style="{box};{_EMPTY}">No picture: {_text(thumbnail.problem)}</div>'
    lines = [f'<bdi title="{_text(place)}">{_text(shown.uri.rpartition("/")[2])}</bdi>']
    if isinstance(shown, Hit):
        gone = " · the file is gone" if shown.missing else ""
        lines.insert(0, f"<b>{shown.rank}</b> · {shown.score:.3f}{gone}")
    if caption:
        lines.append(f"<bdi>{_text(caption)}</bdi>")
    style = _CARD.format(side=side)
    return f'<figure style="{style}">{picture}<figcaption>{"<br>".join(lines)}</figcaption></figure>'


def _text(given: str) -> str:
    """Return text for HTML and its quoted attributes, in one line, without control characters, and not too long."""
    line = "".join(" " if unicodedata.category(char) in {"Cc", "Cs"} else char for char in given)
    return escape(line if len(line) <= _MOST_CHARS else f"{line[: _MOST_CHARS - 1]}…", quote=True)
