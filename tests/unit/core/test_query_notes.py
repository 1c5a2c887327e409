"""Notes of a query: what a step that the answer can do without costs, by failing or by coming too late."""

from __future__ import annotations

import asyncio

import pytest

from lodestone.errors import StoreError
from lodestone.query_notes import QueryNotes


@pytest.mark.parametrize(
    ("error", "warnings", "dropped"),
    [
        (None, [], []),
        (TimeoutError(), [], ["tags: out of time"]),
        (StoreError("the store is gone", hint="start it"), ["tags are left out: the store is gone (start it)"], []),
        (KeyError("x"), ["tags are left out: an unexpected KeyError, which the log describes"], []),
    ],
)
def test_a_step_that_the_answer_can_do_without_goes_no_further_than_a_note(error, warnings, dropped) -> None:
    notes = QueryNotes()
    for _ in range(2):  # each note is made once
        with notes.doing_without("tags", "tags are left out"):
            if error is not None:
                raise error
    assert (notes.warnings, notes.dropped) == (warnings, dropped)


@pytest.mark.parametrize("end", [asyncio.CancelledError, KeyboardInterrupt])
def test_who_gives_up_on_a_query_is_no_note(end) -> None:
    notes = QueryNotes()
    with pytest.raises(end), notes.doing_without("tags", "tags are left out"):
        raise end
    assert notes == QueryNotes()
