"""Answers of a search service, made up in a browser's network layer: hits, responses, streams of events."""

from __future__ import annotations

import json
from typing import Any

QUERY = "11111111-2222-4333-8444-555555555555"
PIXEL = b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30" fill="teal"/></svg>'


def image_id(number: int) -> str:
    """The id of a result."""
    return f"00000000-0000-5000-8000-{number:012d}"


def hit(number: int, **members: Any) -> dict[str, Any]:
    """A result, as the API gives it."""
    return {
        "rank": number + 1, "image_id": image_id(number), "score": 1.0, "corpus": "c", "root": "r", "uri": f"{number}.jpg",
        "width": 400, "height": 300, "captions": [], "thumbnail": f"/v1/images/{image_id(number)}/thumbnail", "copies": 0,
        "missing": False, **members,
    }  # fmt: skip


def guide(guide_id: str, **members: Any) -> dict[str, Any]:
    """A guide, as the API gives it: a picture of the collection, unless `members` say otherwise."""
    return {
        "guide_id": guide_id, "engine": "exemplar", "status": "used", "weight": 0.5, "provenance": {},
        "picture": f"/v1/images/{image_id(0)}/thumbnail", **members,
    }  # fmt: skip


def response(hits: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
    """A response of a search."""
    return {
        "query_id": QUERY, "stage": "text", "hits": hits, "next_offset": None, "fusion": "rrf", "space_weights": {},
        "parts": [], "guides": [], "confidence": 0.9, "probably_nothing": False, "dropped": [], "warnings": [],
        "timings_ms": {"total": 12.0}, **members,
    }  # fmt: skip


def events(*messages: dict[str, Any], first: int = 1) -> str:
    """A stream of messages, numbered from `first`."""
    return "".join(
        f"id: {QUERY}.{number}\nevent: {message['type']}\ndata: {json.dumps(message)}\n\n"
        for number, message in enumerate(messages, first)
    )


def answering(page: Any, body: str, pictures: bool = True) -> list[dict[str, Any]]:
    """Answer every search with these events; returns the bodies that were asked."""
    asked: list[dict[str, Any]] = []

    def answer(route: Any) -> None:
        asked.append(route.request.post_data_json)
        route.fulfill(content_type="text/event-stream", body=body)

    page.route("**/v1/search/stream", answer)
    if pictures:
        page.route("**/v1/images/*/*", lambda route: route.fulfill(content_type="image/svg+xml", body=PIXEL))
    return asked
