"""Tests of the retrievers for LangChain and Haystack, by those projects' own rules and against a real service with keys."""

from __future__ import annotations

# Haystack is imported by the tests that need it: every process that collects this file would wait two seconds for it.
import asyncio
import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from tests.support.keyed import KeyedService, keyed_service
from tests.support.langchain_suite import RetrieversIntegrationTests

from lodestone_client import Lodestone, langchain
from lodestone_schemas.access import Scope
from lodestone_schemas.api import Hit, SearchFilters, SearchRequest, TagRequest
from lodestone_schemas.errors import ConfigurationError, InvalidRequestError, LodestoneError, UnauthorizedError

if TYPE_CHECKING:
    from haystack import Pipeline

QUERY = "a red boat"
# Answers that what was learnt in between does not change.
STABLE = {"guides": 0, "tags": False}
TYPE = "lodestone_client.haystack.LodestoneRetriever"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedService]:
    with keyed_service(tmp_path_factory.mktemp("frameworks"), Scope.SEARCH, Scope.FEEDBACK) as served:
        with Lodestone(served.url, api_key=served.key) as client:
            (boat,) = [image for image in client.iter_images("family") if image.captions == ["a red boat"]]
            client.add_tags(TagRequest(image_ids=[boat.image_id], text="our old house"))
        yield served


@pytest.fixture(scope="module")
def hits(service: KeyedService) -> list[Hit]:
    """All hits of the query, as the client has them."""
    with Lodestone(service.url, api_key=service.key) as client:
        return client.search(SearchRequest(query=QUERY, limit=8, **STABLE)).hits


class TestLangChainStandard(RetrieversIntegrationTests):
    """LangChain's own tests of retrievers."""

    @pytest.fixture(autouse=True)
    def _service(self, service: KeyedService) -> None:
        self.service = service

    @property
    def retriever_constructor(self) -> type[langchain.LodestoneRetriever]:
        return langchain.LodestoneRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"url": self.service.url, "api_key": self.service.key}

    @property
    def retriever_query_example(self) -> str:
        return QUERY


def retriever(service: KeyedService, **given: Any) -> langchain.LodestoneRetriever:
    return langchain.LodestoneRetriever(url=service.url, api_key=service.key, **given)


def test_a_langchain_document_has_the_caption_the_facts_and_a_thumbnail(service: KeyedService, hits: list[Hit]) -> None:
    documents = retriever(service, k=8, options=SearchRequest(**STABLE)).invoke(QUERY)

    assert [document.id for document in documents] == [hit.image_id for hit in hits]
    (boat,) = [hit for hit in hits if hit.captions == ["a red boat"]]
    found = documents[boat.rank - 1]
    facts = found.metadata
    assert found.page_content == "a red boat"
    assert (facts["image_id"], facts["rank"], facts["path"]) == (boat.image_id, boat.rank, "000000.jpg")
    assert facts["source"] == "family/pictures/000000.jpg"
    assert facts["score"] == pytest.approx(boat.score)
    assert json.loads(json.dumps(facts)) == facts
    assert service.key not in json.dumps(facts)
    assert httpx.get(facts["thumbnail"]).status_code == 401
    shown = httpx.get(facts["thumbnail"], headers={"Authorization": f"Bearer {service.key}"})
    assert shown.content[:2] == b"\xff\xd8"


def test_tags_are_read_when_asked_for_and_a_picture_without_words_is_named(service: KeyedService) -> None:
    found = retriever(service, k=8, picture_tags=True)
    by_path = {document.metadata["path"]: document for document in found.invoke(QUERY)}
    assert by_path["000000.jpg"].page_content == "a red boat\nTags: our old house"
    assert by_path["000003.jpg"].page_content == "000003.jpg"

    async def both() -> list[list[Document]]:
        answers = await asyncio.gather(found.ainvoke(QUERY), found.ainvoke("two dogs"))
        await found.aclose()
        return answers

    answers = asyncio.run(both())
    assert {document.metadata["path"]: document.page_content for document in answers[0]} == {
        path: document.page_content for path, document in by_path.items()
    }
    again = asyncio.run(both())  # another event loop, another client
    assert {document.id for document in again[0]} == {document.id for document in answers[0]}


def test_filters_and_options_reach_the_service(service: KeyedService) -> None:
    limited = retriever(service, options=SearchRequest(guides=0), filters=SearchFilters(corpora=["family"]))
    assert len(limited.invoke(QUERY, k=2)) == 2
    assert limited.invoke(QUERY, filters={"path_prefix": "nowhere"}) == []
    assert len(limited.batch([QUERY, "two dogs", "a cat"])) == 3
    with pytest.raises(InvalidRequestError, match=r"filters\.nothing"):
        limited.invoke(QUERY, filters={"nothing": 1})
    with pytest.raises(InvalidRequestError, match="at most 1000 characters"):
        limited.invoke("a" * 1_001)
    with pytest.raises(LodestoneError):
        retriever(service, filters={"corpora": ["nobody's"]}).invoke(QUERY)


def test_the_retriever_is_a_runnable_that_can_be_piped_copied_and_pickled(service: KeyedService) -> None:
    found = retriever(service, k=1)
    chain = found | RunnableLambda(lambda documents: documents[0].metadata["path"])
    assert chain.invoke(QUERY).endswith(".jpg")
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert len(other.invoke(QUERY)) == 1
    found.close()
    assert found.invoke(QUERY)
    for written in (repr(found), found.model_dump_json(), json.dumps(found.to_json())):
        assert service.key not in written


def test_a_wrong_key_and_a_missing_address_are_told(service: KeyedService, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnauthorizedError):
        langchain.LodestoneRetriever(url=service.url, api_key="lodestone_0_0").invoke(QUERY)
    monkeypatch.delenv("LODESTONE_URL", raising=False)
    with pytest.raises(ConfigurationError):
        langchain.LodestoneRetriever()
    monkeypatch.setenv("LODESTONE_URL", "https://other.example")
    monkeypatch.setenv("LODESTONE_API_KEY", service.key)
    with pytest.raises(UnauthorizedError):  # a key of the environment goes to the environment's URL alone
        langchain.LodestoneRetriever(url=service.url).invoke(QUERY)


@pytest.fixture
def pipeline(service: KeyedService, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A pipeline whose prompt names the pictures that were found; the key stands in a variable."""
    from haystack import Pipeline
    from haystack.components.builders import PromptBuilder
    from haystack.utils import Secret

    from lodestone_client import haystack

    monkeypatch.setenv("PICTURES_KEY", service.key)
    made = Pipeline()
    made.add_component(
        "pictures",
        haystack.LodestoneRetriever(service.url, api_key=Secret.from_env_var("PICTURES_KEY"), top_k=2, options=STABLE),
    )
    made.add_component(
        "prompt",
        PromptBuilder(
            "{% for d in documents %}{{ d.meta.path }}: {{ d.content }}\n{% endfor %}", required_variables=["documents"]
        ),
    )
    made.connect("pictures.documents", "prompt.documents")
    return made


def test_a_haystack_pipeline_finds_pictures(pipeline: Pipeline, service: KeyedService, hits: list[Hit]) -> None:
    found = pipeline.run({"pictures": {"query": QUERY}}, include_outputs_from={"pictures"})
    documents = found["pictures"]["documents"]
    assert [document.id for document in documents] == [hit.image_id for hit in hits[:2]]
    first = documents[0]
    assert (first.meta["rank"], first.meta["path"]) == (1, hits[0].uri)
    assert first.score == pytest.approx(hits[0].score)
    assert first.content == ("\n".join(hits[0].captions) or hits[0].uri)
    assert json.loads(json.dumps(first.to_dict())) == first.to_dict()
    assert found["prompt"]["prompt"].startswith(f"{hits[0].uri}: {first.content}\n")
    assert service.key not in json.dumps(first.to_dict())
    assert len(pipeline.run({"pictures": {"query": QUERY, "top_k": 5}})["prompt"]["prompt"].split()) >= 5
    nothing = pipeline.run({"pictures": {"query": QUERY, "filters": {"path_prefix": "nowhere"}}})
    assert nothing["prompt"]["prompt"] == ""
    pipeline.close()


async def test_the_component_is_asynchronous_too(pipeline: Pipeline) -> None:
    blocking = await asyncio.to_thread(pipeline.run, {"pictures": {"query": QUERY}})
    awaited = await pipeline.run_async({"pictures": {"query": QUERY}})
    assert awaited == blocking
    await pipeline.close_async()


def test_a_pipeline_is_written_and_read_again_without_its_key(pipeline: Pipeline, service: KeyedService) -> None:
    from haystack import Pipeline
    from haystack.core.errors import DeserializationError

    written = pipeline.dumps()
    assert service.key not in written
    assert TYPE in written
    with pytest.raises(DeserializationError):  # Haystack reads foreign components only where the caller says so
        Pipeline.loads(written)
    again = Pipeline.loads(written, allowed_modules=["lodestone_client.*"])
    assert again.dumps() == written
    query = {"pictures": {"query": QUERY}}
    assert again.run(query) == pipeline.run(query)


def test_the_component_comes_back_from_its_dictionary_and_a_token_is_never_written(service: KeyedService) -> None:
    from haystack.utils import Secret

    from lodestone_client import haystack

    made = haystack.LodestoneRetriever(
        service.url,
        api_key=Secret.from_env_var("PICTURES_KEY"),
        top_k=3,
        filters={"corpora": ["family"]},
        options={"guides": 0, "deadline_ms": 5_000},
        picture_tags=True,
        timeout_s=9.0,
    )
    written = made.to_dict()
    assert written["type"] == TYPE
    assert haystack.LodestoneRetriever.from_dict(json.loads(json.dumps(written))).to_dict() == written
    with pytest.raises(ValueError, match="token"):
        haystack.LodestoneRetriever(service.url, api_key=Secret.from_token(service.key)).to_dict()


def test_the_component_declares_its_inputs_and_outputs(service: KeyedService) -> None:
    from haystack import component

    from lodestone_client import haystack

    made = haystack.LodestoneRetriever(service.url)
    assert component.registry[TYPE] is haystack.LodestoneRetriever
    assert set(made.__haystack_input__._sockets_dict) == {"query", "filters", "top_k"}  # type: ignore[attr-defined]
    assert set(made.__haystack_output__._sockets_dict) == {"documents"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"top_k": 0}, "limit"),
        ({"filters": {"field": "meta.corpus", "operator": "==", "value": "family"}}, "filters"),
        ({"options": {"guide": 0}}, "guide"),
    ],
)
def test_what_cannot_be_asked_is_refused_when_the_component_is_made(given: dict[str, Any], named: str) -> None:
    from lodestone_client import haystack

    with pytest.raises(InvalidRequestError, match=named) as caught:
        haystack.LodestoneRetriever("http://127.0.0.1:9", **given)
    assert caught.value.hint


def test_the_component_tells_of_a_wrong_key(service: KeyedService) -> None:
    from haystack.utils import Secret

    from lodestone_client import haystack

    with pytest.raises(UnauthorizedError):
        haystack.LodestoneRetriever(service.url, api_key=Secret.from_token("lodestone_0_0")).run(query=QUERY)


def test_the_client_itself_imports_neither_framework() -> None:
    script = (
        "import sys, lodestone_client, lodestone_client.sync_client, lodestone_client.async_client\n"
        "print(sorted(set(sys.modules) & {'langchain_core', 'langsmith', 'haystack', 'posthog'}))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=False)
    assert found.stdout.strip() == "[]", found.stderr
