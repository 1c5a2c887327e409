"""A service searches with the old bridge until the sync of another one, and answers on when that sync fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.home import settings_for
from tests.support.homes import index
from tests.support.in_process import opened_services
from tests.support.pictures import encoded, write_photo, write_photos
from tests.support.pictures import photo as drawn

from lodestone.access.caller import LOCAL_CALLER
from lodestone.catalog.records import ImageState
from lodestone.config.settings import Settings
from lodestone.errors import NotFoundError, PictureNotReadyError, StoreError
from lodestone.home.runtime import Runtime
from lodestone.indexing.sync import collections as syncing
from lodestone.services.use_cases import Services
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training.retrain import KIND
from lodestone_schemas.api import SearchOptions, SearchRequest, SearchResponse, SyncRequest

ASKED = SearchRequest(query="coloured dots", limit=3, guides=0)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    write_photos(tmp_path / "pictures", 5)
    settings = settings_for(tmp_path)
    index(settings, tmp_path / "pictures")
    return settings


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    async with opened_services(settings) as opened:
        yield opened


def activate_shifted(settings: Settings, *, shift: float) -> str:
    """Another bridge, as training in another process leaves it; the name of its collection."""
    with Runtime.open(settings) as runtime:
        shipped = BridgeWeights.shipped()
        weights = replace(shipped, ridge_bias=shipped.ridge_bias + shift)
        path = weights.save(runtime.home.artifacts / KIND)
        runtime.catalog.add_artifact(KIND, weights.version, f"{KIND}/{path.name}", {})
        runtime.catalog.activate_artifact(KIND, weights.version)
        return runtime.projections()["bridge"].collection


async def synchronise(services: Services) -> str:
    """How the sync ended."""
    try:
        return [step.type async for step in services.operations.sync(SyncRequest(), LOCAL_CALLER)][-1]
    except StoreError:
        return "error"


def assert_whole(response: SearchResponse) -> None:
    assert response.warnings == []
    assert response.space_weights["bridge"] > 0
    assert len(response.hits) == 3


async def test_a_new_bridge_is_searched_after_its_sync_and_the_old_one_until_then(
    settings: Settings, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, loop, meanwhile = syncing.sync, asyncio.get_running_loop(), []

    def sync(runtime: Runtime, **options: Any) -> Any:
        meanwhile.append(asyncio.run_coroutine_threadsafe(services.search.answer(ASKED, LOCAL_CALLER), loop).result(180))
        return real(runtime, **options)

    monkeypatch.setattr(syncing, "sync", sync)
    before = await services.search.answer(ASKED, LOCAL_CALLER)
    for shift in (0.02, 0.04):
        collection = activate_shifted(settings, shift=shift)
        assert await synchronise(services) == "done"
        assert_whole(meanwhile[-1])
        after = await services.search.answer(ASKED, LOCAL_CALLER)
        assert_whole(after)
        assert services.session.live.runtime.store.aliases()["bridge"] == collection
    assert [hit.score for hit in after.hits] != [hit.score for hit in before.hits]
    like = await services.search.by_picture(encoded(drawn(seed=3), "JPEG", quality=90), SearchOptions(limit=1), LOCAL_CALLER)
    assert (like.hits[0].uri, like.warnings) == ("000003.jpg", [])


async def test_the_old_bridge_serves_on_while_syncs_fail(
    settings: Settings, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError("the disk is gone", hint="put it back")

    activate_shifted(settings, shift=0.02)
    with monkeypatch.context() as patched:
        patched.setattr(syncing, "sync", broken)
        assert await synchronise(services) == "error"
    assert_whole(await services.search.answer(ASKED, LOCAL_CALLER))
    assert await synchronise(services) == "done"
    assert_whole(await services.search.answer(ASKED, LOCAL_CALLER))


async def test_a_sync_that_fails_after_the_promotion_leaves_the_new_bridge_serving(
    settings: Settings, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError("the disk is gone", hint="put it back")

    collection = activate_shifted(settings, shift=0.02)
    monkeypatch.setattr(syncing, "_drop_retired", broken)
    assert await synchronise(services) == "error"
    assert services.session.live.runtime.store.aliases()["bridge"] == collection
    assert_whole(await services.search.answer(ASKED, LOCAL_CALLER))


async def test_a_service_that_starts_before_the_sync_serves_the_old_bridge_then_the_new(settings: Settings) -> None:
    activate_shifted(settings, shift=0.02)
    async with opened_services(settings) as opened:
        assert_whole(await opened.search.answer(ASKED, LOCAL_CALLER))
        assert await synchronise(opened) == "done"
        assert_whole(await opened.search.answer(ASKED, LOCAL_CALLER))


async def test_a_changed_picture_that_waits_for_its_embedding_is_found_and_sends_nothing(
    settings: Settings, services: Services, tmp_path: Path
) -> None:
    path = write_photo(tmp_path / "pictures" / "000001.jpg", seed=77)
    status = path.stat()
    with Runtime.open(settings) as runtime:
        (root,) = runtime.catalog.roots(None)
        (image,) = [one for one in runtime.catalog.images_of_root(root.root_id) if one.uri == path.name]
        waiting = replace(
            image, hash="ab" * 32, size=status.st_size, mtime_ns=status.st_mtime_ns, state=ImageState.PENDING, slice_id=None,
            width=0, height=0,
        )  # fmt: skip
        runtime.catalog.update_images([waiting])
    hits = (await services.search.answer(ASKED.model_copy(update={"limit": 10}), LOCAL_CALLER)).hits
    assert image.image_id in [hit.image_id for hit in hits]
    assert (services.pictures.image(image.image_id, LOCAL_CALLER)).hash == waiting.hash
    for send in (services.pictures.thumbnail, services.pictures.content):
        with pytest.raises(PictureNotReadyError, match="not embedded yet"):
            send(image.image_id, LOCAL_CALLER)
    with Runtime.open(settings) as runtime:
        runtime.catalog.update_images([replace(waiting, state=ImageState.GONE)])
    with pytest.raises(NotFoundError):
        services.pictures.image(image.image_id, LOCAL_CALLER)
