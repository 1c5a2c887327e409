"""On a shared server, services follow a promotion by another process without an answer that lacks the space."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.home import settings_for
from tests.support.pictures import encoded, photo, write_photos
from tests.support.qdrant_server import QdrantServer

from lodestone.access.caller import LOCAL_CALLER
from lodestone.catalog.records import SwapState
from lodestone.config.own_profiles import ProfileSettings
from lodestone.config.settings import Settings, StoreSettings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.swap.swapping import Swapper
from lodestone_schemas.api import SearchOptions
from lodestone_serve.inference.home import home_services

PICTURES = 6


@pytest.fixture
def settings(tmp_path: Path, qdrant_server: QdrantServer) -> Settings:
    write_photos(tmp_path / "pictures", PICTURES)
    own = ProfileSettings(direct={"look": "efficientnet-lite0#features"}, spaces=["look", "labels"])
    changes = {
        "profile": "own",
        "profiles": {"own": own},
        "store": StoreSettings(kind="server", url=qdrant_server.url, grpc_port=qdrant_server.grpc_port),
    }
    settings = settings_for(tmp_path).model_copy(update=changes)
    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest((tmp_path / "pictures",)))
    return settings


@pytest.mark.server
async def test_services_follow_a_promotion_by_another_process_without_an_answer_that_lacks_the_space(
    settings: Settings,
) -> None:
    services = home_services(settings)
    await services.session.open()
    try:
        swapped = asyncio.create_task(asyncio.to_thread(_swap_by_another_process, settings))
        picture, waited = encoded(photo(seed=3), "JPEG", quality=90), 0
        used: list[str] = []
        while not swapped.done() or used[-1] != swapped.result():
            answer = await services.search.by_picture(picture, SearchOptions(limit=1, spaces=["look"]), LOCAL_CALLER)
            assert (answer.warnings, answer.hits[0].uri) == ([], "000003.jpg")
            used.append(services.session.live.answering.collections["look"])
            waited += swapped.done()
            assert waited < 300, "the service never noticed"
            await asyncio.sleep(0.05)
        assert used[0] != used[-1]
        assert sorted(set(used), key=used.index) == [used[0], used[-1]]
    finally:
        await services.session.close()


def _swap_by_another_process(settings: Settings) -> str:
    """First to outputs that are stored, then to a backbone that nobody has run yet; the collection that is promoted at last."""
    with Runtime.open(settings) as runtime:
        swapper = Swapper(runtime)
        stored = swapper.start("look", "efficientnet-lite2#features")
        assert (stored.swap.state, stored.computed) == (SwapState.SHADOW, ())
        assert stored.swap.report["shadow"]["neighbours"]["compared"] == PICTURES
        swapper.cancel()
        new = swapper.start("look", "efficientnet-lite1#features")
        assert (new.swap.state, new.computed, new.embedded) == (SwapState.SHADOW, ("efficientnet-lite1",), PICTURES)
        swapper.promote()
        assert runtime.profile.direct == {"look": "efficientnet-lite1#features"}
        assert runtime.profile.labels == ()
        return runtime.store.aliases()["look"]
