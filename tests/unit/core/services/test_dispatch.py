"""Arguments of use cases: the parameters of operations, with pages and filters each in one value."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.paging import PageRequest
from lodestone.services.dispatch import arguments_of
from lodestone.services.local import LocalClient
from lodestone.services.queries import GuidePicture
from lodestone.services.runs import RunFilters
from lodestone.services.tags import TagFilters
from lodestone_schemas.operations import OPERATIONS


def test_a_page_is_one_value() -> None:
    values = {"corpus": "photos", "limit": 7, "cursor": "c"}
    assert arguments_of(OPERATIONS["images"], values) == {"corpus": "photos", "page": PageRequest(7, cursor="c")}
    assert arguments_of(OPERATIONS["keys"], {"offset": 4, "limit": 7}) == {"page": PageRequest(7, 4)}


def test_a_limit_alone_is_no_page_and_a_key_of_a_write_is_not_handed_over() -> None:
    assert arguments_of(OPERATIONS["tag_texts"], {"limit": 7, "source": None}) == {"limit": 7, "source": None}
    assert arguments_of(OPERATIONS["remove_tag"], {"tag_id": "t", "idempotency_key": "k"}) == {"tag_id": "t"}


def test_filters_are_one_value() -> None:
    page = {"offset": 0, "limit": 5, "cursor": None}
    tags = {"corpus": "a", "image_id": "b", "text": "c", "source": "d"}
    assert arguments_of(OPERATIONS["tags"], {**page, **tags}) == {
        "filters": TagFilters("a", "b", "c", "d"),
        "page": PageRequest(5),
    }
    runs = {"corpus": "a", "kind": "index", "state": "done"}
    chosen = arguments_of(OPERATIONS["runs"], {**page, **runs})
    assert chosen == {"filters": RunFilters(frozenset({"a"}), "index", "done"), "page": PageRequest(5)}
    anything = arguments_of(OPERATIONS["runs"], {**page, **dict.fromkeys(runs)})
    assert anything["filters"] == RunFilters()


def test_a_client_of_this_process_answers_with_the_bytes_of_a_guides_picture() -> None:
    class Queries:
        async def guide_picture(self, query_id: str, guide_id: str, caller: Caller) -> GuidePicture:
            assert (query_id, guide_id, caller) == ("q", "exemplar/0", LOCAL_CALLER)
            return GuidePicture(b"a picture", "image/jpeg")

    client = LocalClient(cast("Any", SimpleNamespace(queries=Queries())))
    assert client.guide_picture("q", "exemplar/0") == b"a picture"
