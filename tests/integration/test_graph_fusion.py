"""Answers whose lists are fused in another process are the same in every number, explanations included."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from tests.support.collection import Collection, fillers, load_models, photos

from lodestone.retrieval.fusion import FUSIONS
from lodestone_schemas.api import SearchRequest
from lodestone_serve.graph.fusion import FusionCall, RemoteFuser


class There:
    """The deployment, without Serve: calls and answers are pickled."""

    def __init__(self) -> None:
        self.calls = 0

    async def call(self, method: str, call: FusionCall, **_named: object) -> object:
        assert method == "fuse"
        self.calls += 1
        return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(call)).fuse()))


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    made = Collection(tmp_path_factory.mktemp("home"), load_models())
    made.add("photos", photos(), root="/a/photos")
    made.add("made", fillers(40), root="/b/made")
    made.caption({"more/003.jpg": ["two children build a sand castle at the beach"]})
    yield made
    made.close()


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("fusion", FUSIONS)
async def test_answers_and_explanations_are_those_of_one_process(collection: Collection, fusion: str) -> None:
    request = SearchRequest(query="children at the beach, a sand castle", explain=True, limit=20, offset=10, fusion=fusion)
    here, stage = await collection.engine().answer(request), There()
    there = await collection.engine(fuser=RemoteFuser(stage)).answer(request)  # type: ignore[arg-type]
    assert stage.calls >= 2  # the text pass, and with guides
    assert len(here.hits) == 20
    assert all(hit.contributions for hit in here.hits)
    assert [hit.model_dump() for hit in there.hits] == [hit.model_dump() for hit in here.hits]
    assert there.space_weights == here.space_weights
