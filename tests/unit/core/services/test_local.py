"""The client of a home in this process: what a command gets by it, and that it is the interface of the client over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from mypy import api as mypy
from tests.support.home import settings_for
from tests.support.pictures import encoded, photo, write_photos

from lodestone.errors import NotFoundError, ServiceUnavailableError, UnknownNameError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.services.local import LocalClient
from lodestone.sources import verified
from lodestone_schemas.access import KeyRequest
from lodestone_schemas.api import FeedbackRequest, SearchOptions, SearchRequest, TagRequest
from lodestone_schemas.directories import DirectoryChange, DirectoryRequest
from lodestone_schemas.openai import EmbeddingsRequest

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("local")
    write_photos(folder / "pictures", 6)
    (folder / "pictures" / "broken.jpg").write_bytes(b"no picture")
    with Runtime.open(settings_for(folder)) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",), corpus="photos"))
        yield runtime


@pytest.fixture
def client(runtime: Runtime) -> Iterator[LocalClient]:
    with LocalClient.over(runtime) as client:
        yield client


@pytest.mark.nightly
@pytest.mark.slow
def test_mypy_takes_either_client_for_the_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    script = tmp_path / "either.py"
    line = "{name}: LodestoneApi = {kind}()\n"
    header = (
        "from lodestone_client.sync_api import LodestoneApi\n"
        "from lodestone.services.local import LocalClient\n"
        "from lodestone_client import Lodestone\n"
        "def local() -> LocalClient: ...\n"
        "def remote() -> Lodestone: ...\n"
        "def neither() -> int: ...\n"
    )
    assignments = [line.format(name=f"client_{kind}", kind=kind) for kind in ("local", "remote", "neither")]
    script.write_text(header + "".join(assignments))
    out, _, _ = mypy.run([str(script), "--no-error-summary", "--disable-error-code=empty-body"])
    assert out.count("error:") == 1, out
    assert 'expression has type "int"' in out


def test_a_command_searches_looks_back_and_teaches(client: LocalClient) -> None:
    answer = client.search(SearchRequest(query="coloured dots", guides=0, limit=3))
    assert len(answer.hits) == 3
    events = [event.type for event in client.stream(SearchRequest(query="coloured dots", guides=0))]
    assert (events[0], events[-1]) == ("plan", "done")
    stream = client.stream("coloured dots")
    assert next(stream).type == "plan"
    stream.close()
    explained = client.explain(answer.query_id)
    assert [hit.image_id for hit in explained.hits] == [hit.image_id for hit in answer.hits]
    assert client.replay(answer.query_id).identical
    assert client.replay(answer.query_id, fresh=True).identical
    assert answer.query_id in {query.query_id for query in client.iter_queries()}
    result = client.feedback(FeedbackRequest(query_id=answer.query_id, relevant=[answer.hits[0].image_id]))
    assert result.applied
    assert client.trust().topics
    back = client.withdraw_feedback(FeedbackRequest(query_id=answer.query_id, relevant=[answer.hits[0].image_id]))
    assert back.applied
    assert client.trust().topics == []
    with pytest.raises(NotFoundError):
        client.explain("nope")


def test_a_command_finds_what_it_has_just_tagged(client: LocalClient) -> None:
    image_id = client.images("photos", limit=1).images[0].image_id
    (tag,) = client.add_tags(TagRequest(image_ids=[image_id], text="zanzibar")).tags
    found = client.search(SearchRequest(query="zanzibar", guides=0, explain=True))
    assert found.hits[0].image_id == image_id
    assert [one.tag_id for one in client.iter_tags(text="zanzibar")] == [tag.tag_id]
    client.remove_tag(tag.tag_id)
    with pytest.raises(NotFoundError):
        client.remove_tag(tag.tag_id)


def test_pictures_are_looked_at_and_searched_by(client: LocalClient, monkeypatch: pytest.MonkeyPatch) -> None:
    images = list(client.iter_images("photos"))
    assert len(images) == 6
    assert client.image(images[0].image_id) == images[0]
    whole = client.content(images[0].image_id)
    assert whole[:2] == b"\xff\xd8"
    monkeypatch.setattr(verified, "WHOLE_BYTES", 10)  # as a large file is read
    assert client.content(images[0].image_id) == whole
    assert client.thumbnail(images[0].image_id)
    like = client.by_picture(encoded(photo(seed=3), "JPEG", quality=90), SearchOptions(limit=1))
    assert like.hits[0].uri == "000003.jpg"
    assert client.similar(like.hits[0].image_id).hits
    with pytest.raises(UnknownNameError):
        client.images("nobody's")


def test_an_answer_says_of_which_sent_pictures_only_a_part_was_there(client: LocalClient) -> None:
    whole = encoded(photo(seed=3), "JPEG", quality=90)
    cut = whole[: len(whole) * 3 // 4]
    assert client.by_picture(whole, SearchOptions(limit=1)).warnings == []
    (alone,) = client.by_picture(cut, SearchOptions(limit=1)).warnings
    assert re.match(r"the picture that was sent ends early: [5-9]\d% of it could be decoded", alone)
    several = client.by_picture(whole, SearchRequest(query="dots", guides=0, limit=1), more=[cut]).warnings
    assert [note[:19] for note in several if "ends early" in note] == ["picture 2 of 2 that"]


def test_lists_and_models_are_those_of_the_home(client: LocalClient) -> None:
    assert [corpus.name for corpus in client.iter_corpora()] == ["photos"]
    (run,) = client.iter_runs(corpus="photos")
    assert client.run(run.run_id).failures == 1
    assert [failure.uri for failure in client.iter_run_failures(run.run_id)] == ["broken.jpg"]
    assert client.status().ready
    assert client.model("bridge").kind == "space"
    embedded = client.embeddings(EmbeddingsRequest(model="bridge", input=["a boat", "dogs"]))
    assert len(embedded.data) == 2
    assert "exemplar" in {engine.name for engine in client.generators().engines}
    made = client.create_key(KeyRequest(name="app"))
    assert [key.key_id for key in client.keys().keys] == [made.key.key_id]
    assert client.rotate_key(made.key.key_id).secret != made.secret


def test_directories_are_managed_and_indexed_by_whoever_can(client: LocalClient, runtime: Runtime, tmp_path: Path) -> None:
    (directory,) = client.iter_directories()
    assert not client.change_directory(directory.directory_id, DirectoryChange(enabled=False)).enabled
    assert client.search(SearchRequest(query="dots", guides=0)).hits == []
    client.change_directory(directory.directory_id, DirectoryChange(enabled=True))
    added = client.add_directory(DirectoryRequest(path=str(tmp_path), corpus="more", index=False))
    assert added.job is None
    for refused in (client.jobs, lambda: client.index_directory(added.directory.directory_id)):
        with pytest.raises(ServiceUnavailableError, match="without a service"):
            refused()
    client.remove_directory(added.directory.directory_id)
    assert [one.directory_id for one in client.directories().directories] == [directory.directory_id]
    client.remove_corpus("more")
    assert [step.type for step in client.sync()][-1] == "done"
    assert client.search(SearchRequest(query="dots", guides=0)).hits
