"""Batches of queries: windows of lines, each sent whole; queries that stay unanswered are sent again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from lodestone_client.call import Call, as_nothing
from lodestone_client.problems import unavailable
from lodestone_schemas.api import SearchRequest
from lodestone_schemas.batch import BatchAnswer, BatchLine

# The whole of a window is sent before its first answer is read; a service that waits for its reader must never stop reading it.
_WINDOW: Final = 64
BATCH: Final = "/v1/search/batch"


class Window:
    """Some of the queries, with the numbers of those that have no answer yet."""

    def __init__(self, lines: dict[int, SearchRequest]) -> None:
        self.open = lines

    def call(self) -> Call[None]:
        """Return the call that sends the queries without an answer."""
        lines = [
            BatchLine(**request.model_dump(exclude_unset=True), id=str(number)).model_dump_json(exclude_unset=True)
            for number, request in self.open.items()
        ]
        return Call("POST", BATCH, as_nothing, lines="\n".join([*lines, ""]).encode())

    def take(self, line: bytes) -> BatchAnswer | None:
        """Return one answer under the number of its query; None for a query that has its answer."""
        answer = BatchAnswer.model_validate_json(line, extra="ignore")
        number = int(answer.id) if answer.id is not None and answer.id.isdecimal() else 0
        if self.open.pop(number, None) is None:
            return None
        return answer.model_copy(update={"line": number, "id": None})

    def check(self, before: int, url: str) -> None:
        """Raise unless a round has answered at least one query that was open before."""
        if len(self.open) == before:
            raise unavailable(url, f"it left {before} queries of a batch unanswered")


def windows(requests: Iterable[SearchRequest | str]) -> Iterator[Window]:
    """Yield all queries in windows, numbered from 1."""
    numbered = enumerate((SearchRequest(query=one) if isinstance(one, str) else one for one in requests), 1)
    while part := dict(itertools.islice(numbered, _WINDOW)):
        yield Window(part)
