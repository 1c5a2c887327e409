"""Progress of reading a query's events: what has arrived, what is missing, and how to resume a broken connection."""

from __future__ import annotations

import json
from typing import Final

from pydantic import TypeAdapter, ValidationError

from lodestone_client.call import Call, as_nothing
from lodestone_client.problems import FailedResponse, error_of, unavailable
from lodestone_schemas.api import Event, PlanEvent, SearchRequest
from lodestone_schemas.errors import NotFoundError

_EVENTS: Final[TypeAdapter[Event]] = TypeAdapter(Event)
_KNOWN: Final = frozenset({"plan", "results", "guide", "done", "error"})
STREAM = "/v1/search/stream"


class Reading:
    """The events of one query, over as many connections as it takes.

    Args:
        request: The query.
        query_id: Of a query that goes on already; its events are taken up after `last_id`.
        last_id: Id of the last event that came.
    """

    def __init__(self, request: SearchRequest | None, *, query_id: str = "", last_id: str = "") -> None:
        self._request = request
        self.query_id = query_id
        self.last_id = last_id
        self.ended = False

    def call(self) -> Call[None]:
        """Return the call to send next: the query, or the request for the rest of its events."""
        if self.query_id and (self.last_id or self._request is None):
            headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
            return Call("GET", f"{STREAM}/{self.query_id}", as_nothing, headers=headers)
        return Call("POST", STREAM, as_nothing, body=self._request)

    def take(self, data: str, event_id: str) -> Event | None:
        """Return one event; None for an event that arrived before and for kinds that this version does not know.

        Raises:
            LodestoneError: the query failed.
            Failed: this is no event.
        """
        number = _number(event_id)
        if number is not None and self.last_id and number <= (_number(self.last_id) or 0):
            return None
        try:
            kind = json.loads(data)["type"]
            event = _EVENTS.validate_json(data, extra="ignore") if kind in _KNOWN else None
        except (ValueError, KeyError, TypeError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise FailedResponse(unavailable("the other end", f"it sent an event that is none ({why})"), fatal=True) from error
        self.last_id = event_id or self.last_id
        if isinstance(event, PlanEvent):
            self.query_id = event.query_id
        if event is not None and event.type == "error":
            self.ended = True
            raise error_of(event.problem.model_dump())
        self.ended = event is not None and event.type == "done"
        return event

    def forgotten(self, failed: FailedResponse) -> bool:
        """Whether the service no longer has this stream (another replica answers): the query is then sent anew, once.

        Its events begin again with a plan; the last results replace the earlier ones, as ever.
        """
        if self._request is None or not self.last_id or not isinstance(failed.error, NotFoundError):
            return False
        self.query_id = self.last_id = ""
        return True


def _number(event_id: str) -> int | None:
    text = event_id.rpartition(".")[2]
    return int(text) if text.isdecimal() else None
