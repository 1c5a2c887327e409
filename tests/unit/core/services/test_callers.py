"""Every use case, asked by a caller of another corpus: nothing of that corpus is shown, nor that it is there."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import io
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.support.tenants import HOLDER, OTHER, OWN, make_tenants

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.catalog.records import WriteKey
from lodestone.directories.queue import IndexOrder, RunQueue
from lodestone.errors import ForbiddenError, LodestoneError
from lodestone.home.runtime import Runtime
from lodestone.paging import PageRequest
from lodestone.services.runs import RunFilters
from lodestone.services.sessions.in_process import InProcessSession
from lodestone.services.tags import TagFilters
from lodestone.services.use_cases import Services, make_services
from lodestone_schemas.access import KeyRequest, KeyRotation, Scope
from lodestone_schemas.api import (
    BrowseRequest,
    FacetsRequest,
    FeedbackRequest,
    PathsRequest,
    SearchFilters,
    SearchOptions,
    SearchRequest,
    SyncRequest,
    TagRequest,
)
from lodestone_schemas.directories import DirectoryChange, DirectoryRelocation, DirectoryRequest, DirectorySplit, JobInfo
from lodestone_schemas.openai import DrawingRequest
from lodestone_schemas.swaps import ShadowRequest
from lodestone_schemas.syncing import DuplicatesRequest, VerifyRequest
from lodestone_schemas.timeline import EventsRequest

OWNER = Caller.named(f"key:{OTHER}", HOLDER, frozenset({OTHER}))
STRANGER = Caller.named(f"key:{OWN}", HOLDER, frozenset({OWN}))
UNKNOWN = "00000000-0000-5000-8000-000000000000"
PAGE = PageRequest(50)
WORDS = f"{OTHER} boats in a harbour at dawn"


class Queue(RunQueue):
    """Holds one job of the other corpus, and takes every order without working on it."""

    def __init__(self) -> None:
        self.known = [self._job(f"{OTHER}-job", OTHER)]

    def _job(self, job_id: str, corpus: str) -> JobInfo:
        return JobInfo(job_id=job_id, corpus=corpus, state="waiting", reason="asked")

    def submit(self, order: IndexOrder) -> JobInfo:
        self.known.append(self._job(f"{order.corpus}-{len(self.known)}", order.corpus))
        return self.known[-1]

    def jobs(self) -> list[JobInfo]:
        return list(self.known)

    def cancel(self, job_id: str) -> JobInfo:
        return next(job for job in self.known if job.job_id == job_id)

    def withdraw(self, path: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Ids:
    """Names of things, of the other corpus or of nothing at all."""

    image: str = UNKNOWN
    query: str = UNKNOWN
    tag: str = UNKNOWN
    directory: str = UNKNOWN
    run: str = UNKNOWN
    job: str = UNKNOWN
    corpus: str = "nowhere"
    path: str = "/nowhere"


class Gets(Enum):
    """What a caller gets of something of a corpus that they do not see."""

    UNKNOWN = "the same as of something that is not there"
    NOTHING = "an answer without it"
    REFUSAL = "a refusal: the work is on the whole home"
    ALL = "all: it belongs to no corpus"


@dataclass(frozen=True)
class Case:
    gets: Gets
    ask: Callable[[Services, Ids, Caller], Any]


def _png() -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (64, 64), (200, 30, 30)).save(target, "PNG")
    return target.getvalue()


SEARCH = SearchRequest(query=WORDS, guides=0)
CASES: dict[str, Case] = {
    "search.events": Case(Gets.NOTHING, lambda s, _, c: s.search.events(SEARCH, c)),
    "search.answer": Case(Gets.NOTHING, lambda s, _, c: s.search.answer(SEARCH, c)),
    "search.similar": Case(Gets.UNKNOWN, lambda s, i, c: s.search.similar(i.image, SearchOptions(), c)),
    "search.by_picture": Case(
        Gets.UNKNOWN,
        lambda s, i, c: s.search.by_picture(_png(), SearchOptions(filters=SearchFilters(corpora=[i.corpus])), c),
    ),
    "queries.page": Case(Gets.NOTHING, lambda s, _, c: s.queries.page(PAGE, c)),
    "queries.explain": Case(Gets.UNKNOWN, lambda s, i, c: s.queries.explain(i.query, c)),
    "queries.replay": Case(Gets.UNKNOWN, lambda s, i, c: s.queries.replay(i.query, c)),
    "queries.guide_picture": Case(Gets.UNKNOWN, lambda s, i, c: s.queries.guide_picture(i.query, "exemplar/0", c)),
    "learning.feedback": Case(
        Gets.UNKNOWN, lambda s, i, c: s.learning.feedback(FeedbackRequest(query_id=i.query, relevant=[i.image]), c)
    ),
    "learning.trust": Case(Gets.NOTHING, lambda s, _, c: s.learning.trust(c)),
    "learning.trust_events": Case(Gets.REFUSAL, lambda s, _, c: s.learning.trust_events(None, PAGE, c)),
    "learning.generators": Case(Gets.NOTHING, lambda s, _, c: s.learning.generators(c)),
    "tags.page": Case(Gets.UNKNOWN, lambda s, i, c: s.tags.page(TagFilters(corpus=i.corpus), PAGE, c)),
    "tags.texts": Case(Gets.NOTHING, lambda s, _, c: s.tags.texts(None, 10, c)),
    "tags.add": Case(Gets.UNKNOWN, lambda s, i, c: s.tags.add(TagRequest(image_ids=[i.image], text="a boat"), c)),
    "tags.remove": Case(Gets.UNKNOWN, lambda s, i, c: s.tags.remove(i.tag, c)),
    "learning.withdraw": Case(
        Gets.UNKNOWN, lambda s, i, c: s.learning.withdraw(FeedbackRequest(query_id=i.query, irrelevant=[i.image]), c)
    ),
    "pictures.image": Case(Gets.UNKNOWN, lambda s, i, c: s.pictures.image(i.image, c)),
    "pictures.page": Case(Gets.UNKNOWN, lambda s, i, c: s.pictures.page(i.corpus, PAGE, c)),
    "pictures.browse": Case(
        Gets.UNKNOWN, lambda s, i, c: s.pictures.browse(BrowseRequest(filters=SearchFilters(corpora=[i.corpus])), c)
    ),
    "pictures.facets": Case(
        Gets.UNKNOWN, lambda s, i, c: s.pictures.facets(FacetsRequest(of="place", filters=SearchFilters(corpora=[i.corpus])), c)
    ),
    "timeline.events": Case(
        Gets.UNKNOWN, lambda s, i, c: s.timeline.events(EventsRequest(filters=SearchFilters(corpora=[i.corpus])), c)
    ),
    "pictures.remove": Case(Gets.UNKNOWN, lambda s, i, c: s.pictures.remove(i.image, c)),
    "pictures.content": Case(Gets.UNKNOWN, lambda s, i, c: s.pictures.content(i.image, c)),
    "pictures.thumbnail": Case(Gets.UNKNOWN, lambda s, i, c: s.pictures.thumbnail(i.image, c)),
    "pictures.paths": Case(Gets.REFUSAL, lambda s, i, c: s.pictures.paths(PathsRequest(image_ids=[i.image]), c)),
    "corpora.page": Case(Gets.NOTHING, lambda s, _, c: s.corpora.page(PAGE, c)),
    "corpora.rename": Case(Gets.UNKNOWN, lambda s, i, c: s.corpora.rename(i.corpus, "renamed", c)),
    "corpora.remove": Case(Gets.UNKNOWN, lambda s, i, c: s.corpora.remove(i.corpus, c)),
    "directories.page": Case(Gets.NOTHING, lambda s, _, c: s.directories.page(PAGE, c)),
    "directories.get": Case(Gets.UNKNOWN, lambda s, i, c: s.directories.get(i.directory, c)),
    "directories.add": Case(Gets.UNKNOWN, lambda s, i, c: s.directories.add(DirectoryRequest(path=i.path, corpus=i.corpus), c)),
    "directories.change": Case(
        Gets.UNKNOWN, lambda s, i, c: s.directories.change(i.directory, DirectoryChange(enabled=True), c)
    ),
    "directories.relocate": Case(
        Gets.UNKNOWN, lambda s, i, c: s.directories.relocate(i.directory, DirectoryRelocation(path=i.path), c)
    ),
    "directories.split": Case(Gets.UNKNOWN, lambda s, i, c: s.directories.split(i.directory, DirectorySplit(folder="2018"), c)),
    "directories.index": Case(Gets.UNKNOWN, lambda s, i, c: s.directories.index(i.directory, c)),
    "directories.remove": Case(Gets.UNKNOWN, lambda s, i, c: s.directories.remove(i.directory, c)),
    "directories.jobs": Case(Gets.NOTHING, lambda s, _, c: s.directories.jobs(c)),
    "directories.cancel_job": Case(Gets.UNKNOWN, lambda s, i, c: s.directories.cancel_job(i.job, c)),
    "runs.page": Case(Gets.UNKNOWN, lambda s, i, c: s.runs.page(RunFilters(frozenset({i.corpus})), PAGE, c)),
    "runs.get": Case(Gets.UNKNOWN, lambda s, i, c: s.runs.get(i.run, c)),
    "runs.cancel": Case(Gets.UNKNOWN, lambda s, i, c: s.runs.cancel(i.run, c)),
    "runs.failures": Case(Gets.UNKNOWN, lambda s, i, c: s.runs.failures(i.run, PAGE, c)),
    "models.all": Case(Gets.ALL, lambda s, _, c: s.models.all(c)),
    "models.get": Case(Gets.ALL, lambda s, _, c: s.models.get("bridge", c)),
    "models.embed": Case(Gets.ALL, lambda s, _, c: s.models.embed("bridge", ["a boat"], c)),
    "models.draw": Case(Gets.ALL, lambda s, _, c: s.models.draw(DrawingRequest(prompt="a boat"), c)),
    "tagging.of_picture": Case(Gets.ALL, lambda s, _, c: s.tagging.of_picture(_png(), c)),
    "tagging.of_image": Case(Gets.UNKNOWN, lambda s, i, c: s.tagging.of_image(i.image, c)),
    "rates.take": Case(Gets.REFUSAL, lambda s, _, c: s.rates.take("somebody", c, amount=1, window_s=1, wanted=1)),
    "keys.store": Case(Gets.REFUSAL, lambda s, _, c: s.keys.store(c)),
    "keys.page": Case(Gets.REFUSAL, lambda s, _, c: s.keys.page(PAGE, c)),
    "keys.create": Case(Gets.REFUSAL, lambda s, _, c: s.keys.create(KeyRequest(name="mine"), c)),
    "keys.rotate": Case(Gets.REFUSAL, lambda s, _, c: s.keys.rotate("0" * 16, KeyRotation(), c)),
    "keys.revoke": Case(Gets.REFUSAL, lambda s, _, c: s.keys.revoke("0" * 16, c)),
    "operations.status": Case(Gets.NOTHING, lambda s, _, c: s.operations.status(c)),
    "operations.facts": Case(Gets.REFUSAL, lambda s, _, c: s.operations.facts(c)),
    "operations.shadow": Case(Gets.REFUSAL, lambda s, _, c: s.operations.shadow(ShadowRequest(space="bridge"), c)),
    "operations.sync": Case(Gets.REFUSAL, lambda s, _, c: s.operations.sync(SyncRequest(), c)),
    "operations.find_duplicates": Case(Gets.REFUSAL, lambda s, _, c: s.operations.find_duplicates(DuplicatesRequest(), c)),
    "operations.verify": Case(Gets.REFUSAL, lambda s, _, c: s.operations.verify(VerifyRequest(), c)),
    "writes.claim": Case(Gets.REFUSAL, lambda s, _, c: s.writes.claim(WriteKey("", "k", "f"), c)),
    "writes.answer": Case(Gets.REFUSAL, lambda s, _, c: s.writes.answer(WriteKey("", "k", "f"), c, status=200, body=b"")),
    "writes.forget": Case(Gets.REFUSAL, lambda s, _, c: s.writes.forget(WriteKey("", "k", "f"), c)),
}


def _of(gets: Gets) -> list[str]:
    return [name for name, case in CASES.items() if case.gets is gets]


@dataclass
class Home:
    """A home with two corpora, and what the owner of the other one has done."""

    services: Services
    runner: asyncio.Runner
    other: Ids
    marks: set[str]

    def ask(self, name: str, ids: Ids, caller: Caller) -> Any:
        """The answer of a use case, to its end."""
        return self._ended(CASES[name].ask(self.services, ids, caller))

    def outcome(self, name: str, ids: Ids, caller: Caller) -> str:
        """The same as text; an error by its class, message and details. Ids that were sent are taken out."""
        try:
            text = _text(self.ask(name, ids, caller))
        except LodestoneError as error:
            text = f"{type(error).__name__}: {error.message} {error.hint} {error.details}"
        for sent in dataclasses.astuple(ids):
            text = text.replace(sent, "<sent>")
        return text

    def _ended(self, answer: Any) -> Any:
        if inspect.isawaitable(answer):

            async def awaited() -> Any:
                return await answer

            return self.runner.run(awaited())
        return self.runner.run(_listed(answer)) if isinstance(answer, AsyncIterator) else answer


async def _listed(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def _text(answer: Any) -> str:
    if isinstance(answer, list):
        return " ".join(_text(item) for item in answer)
    return answer.model_dump_json() if hasattr(answer, "model_dump_json") else repr(answer)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("callers")
    tenants = make_tenants(folder)
    with Runtime.open(tenants.settings) as runtime, asyncio.Runner() as runner:
        services = make_services(InProcessSession(runtime, queue=Queue()))
        made = Home(services, runner, Ids(), set())
        made.other = _done_by_the_owner(made, folder)
        pictures = services.pictures.page(OTHER, PAGE, OWNER).images
        made.marks = {OTHER, *(image.image_id for image in pictures), *dataclasses.astuple(made.other)}
        yield made
        runner.run(services.session.close())


def _done_by_the_owner(home: Home, folder: Path) -> Ids:
    services, run = home.services, home.runner.run
    answer = run(services.search.answer(SearchRequest(query=WORDS, topic=f"{OTHER} topic"), OWNER))
    shown = [hit.image_id for hit in answer.hits]
    run(services.learning.feedback(FeedbackRequest(query_id=answer.query_id, relevant=shown[:1]), OWNER))
    tagged = run(services.tags.add(TagRequest(image_ids=shown[:2], text=f"{OTHER} boats"), OWNER))
    return Ids(
        image=shown[0],
        query=answer.query_id,
        tag=tagged.tags[0].tag_id,
        directory=services.directories.page(PAGE, OWNER).directories[0].directory_id,
        run=services.runs.page(RunFilters(), PAGE, OWNER).runs[0].run_id,
        job=services.directories.jobs(OWNER).jobs[0].job_id,
        corpus=OTHER,
        path=str(folder / f"{OTHER}-pictures"),
    )


def test_every_use_case_takes_a_caller_and_stands_in_the_table() -> None:
    methods = {}
    for subject in dataclasses.fields(Services):
        if subject.name == "session":
            continue
        kind = inspect.get_annotations(Services, eval_str=True)[subject.name]
        methods |= {f"{subject.name}.{name}": method for name, method in vars(kind).items() if not name.startswith("_")}
    assert {name for name, method in methods.items() if "caller" not in inspect.signature(method).parameters} == set()
    assert set(methods) == set(CASES), "say in CASES what a caller of another corpus gets"


@pytest.mark.parametrize("name", _of(Gets.UNKNOWN))
def test_what_is_not_seen_is_answered_as_what_is_not_there(home: Home, name: str) -> None:
    stranger = home.outcome(name, home.other, STRANGER)
    assert stranger == home.outcome(name, Ids(), STRANGER)
    assert not {mark for mark in home.marks if mark in stranger}


@pytest.mark.parametrize("name", [*_of(Gets.NOTHING), *_of(Gets.ALL)])
def test_answers_hold_nothing_of_another_corpus(home: Home, name: str) -> None:
    told = home.outcome(name, Ids(), STRANGER)
    assert not {mark for mark in home.marks if mark in told.replace(WORDS, "")}


@pytest.mark.parametrize("name", _of(Gets.REFUSAL))
def test_what_works_on_the_whole_home_is_refused_to_who_sees_a_part(home: Home, name: str) -> None:
    with pytest.raises(ForbiddenError, match="this works on the whole home"):
        home.ask(name, Ids(), STRANGER)


# What removes ends the fixture, and no picture of it lies in a folder that could be split off.
NOT_ASKED = {
    "corpora.remove",
    "corpora.rename",
    "pictures.remove",
    "directories.remove",
    "directories.split",
    "queries.guide_picture",
    "tags.remove",
}
OWNERS_SEE = sorted({*_of(Gets.UNKNOWN)} - NOT_ASKED)


@pytest.mark.parametrize("name", OWNERS_SEE)
def test_the_owner_gets_what_the_stranger_does_not(home: Home, name: str) -> None:
    """The same request is answered: the comparison above is of things that are really there."""
    try:
        home.ask(name, home.other, OWNER)
    except ForbiddenError:
        assert name in {"directories.add", "directories.relocate"}, "the settings name no folder for this corpus"


def test_lists_show_their_own_rows_to_each_caller(home: Home) -> None:
    services = home.services
    for caller, corpus in ((OWNER, OTHER), (STRANGER, OWN)):
        assert [row.name for row in services.corpora.page(PAGE, caller).corpora] == [corpus]
        assert {row.corpus for row in services.directories.page(PAGE, caller).directories} == {corpus}
        assert {row.corpus for row in services.runs.page(RunFilters(), PAGE, caller).runs} == {corpus}
        assert {hit.corpus for hit in home.ask("search.answer", Ids(), caller).hits} == {corpus}
        assert home.ask("operations.status", Ids(), caller).images == 6
    assert home.ask("operations.status", Ids(), LOCAL_CALLER).images == 12
    assert services.tags.page(TagFilters(), PAGE, STRANGER).tags == []
    assert services.tags.page(TagFilters(), PAGE, OWNER).tags


def test_words_of_others_are_shown_to_those_who_see_everybodys_queries(home: Home) -> None:
    everywhere = Caller.named("key:everywhere", HOLDER)
    assert WORDS in _text(home.ask("learning.trust", Ids(), LOCAL_CALLER)) or f"{OTHER} topic" in _text(
        home.ask("learning.trust", Ids(), LOCAL_CALLER)
    )
    assert OTHER not in _text(home.ask("learning.trust", Ids(), everywhere))
    seen = home.runner.run(home.services.queries.page(PAGE, everywhere)).queries
    assert home.other.query not in {query.query_id for query in seen}, "queries belong to whoever asked them"
    admin = Caller.named("key:admin", [Scope.ADMIN])
    seen = home.runner.run(home.services.queries.page(PAGE, admin)).queries
    assert home.other.query in {query.query_id for query in seen}
