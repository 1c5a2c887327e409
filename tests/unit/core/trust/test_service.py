"""Feedback changes trust once, in its own topic, and can be undone, replayed and carried to another home."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from tests.support.traces import ENCODER, record_trace, trace_of_scores

from lodestone.catalog.catalog import Catalog
from lodestone.config.settings import TrustSettings
from lodestone.errors import CatalogError, InvalidRequestError, NotFoundError, UnknownNameError
from lodestone.trust.service import TrustService
from lodestone_schemas.api import FeedbackRequest, FeedbackResult

GOOD = {"right": 1.0, "wrong": 0.0, "other": 0.2}
BAD = {"right": 0.0, "wrong": 1.0, "other": 0.2}
SPACES = ("bad", "good")
EAST, NORTH = np.array([1.0, 0.0], np.float32), np.array([0.0, 1.0], np.float32)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as opened:
        yield opened


@pytest.fixture
def book(catalog: Catalog) -> TrustService:
    return TrustService(catalog, TrustSettings())


def tell(
    book: TrustService, catalog: Catalog, query_id: str, *, vector: object = EAST, topic: str | None = None, bad: str = "bad"
) -> FeedbackResult:
    """Ask a query that `bad` gets wrong, and say so."""
    scores = {space: BAD if space == bad else GOOD for space in SPACES}
    record_trace(catalog, trace_of_scores(query_id, scores, vector=vector, topic=topic))  # type: ignore[arg-type]  # (a vector)
    return book.learn(FeedbackRequest(query_id=query_id, relevant=["right"], irrelevant=["wrong"]))


def weights(book: TrustService, *, vector: object = EAST, topic: str | None = None) -> dict[str, float]:
    return dict(book.assign(vector, encoder=ENCODER, topic=topic, spaces=SPACES).weights)  # type: ignore[arg-type]  # (a vector)


def test_without_feedback_all_spaces_count_the_same(book: TrustService) -> None:
    found = book.assign(EAST, encoder=ENCODER, topic=None, spaces=SPACES)
    assert found.topic is None
    assert found.weights == {"good": 1.0, "bad": 1.0}
    named = book.assign(EAST, encoder=ENCODER, topic=" my  dogs ", spaces=["good"])
    assert (named.topic, named.weights) == ("my dogs", {"good": 1.0})


def test_feedback_moves_trust_towards_the_space_that_was_right(book: TrustService, catalog: Catalog) -> None:
    first = tell(book, catalog, "q1")
    assert first.applied
    assert first.before == {"bad": 1.0, "good": 1.0}
    assert first.after["good"] > 1 > first.after["bad"]
    assert first.after == weights(book)
    second = tell(book, catalog, "q2")
    assert second.topic == first.topic
    assert second.before == first.after
    (topic,) = book.show().topics
    assert (topic.queries, topic.words, topic.weights) == (2, ["q1", "q2"], second.after)


def test_topics_learn_apart_and_unlike_queries_are_not_concerned(book: TrustService, catalog: Catalog) -> None:
    east = tell(book, catalog, "q1", vector=EAST)
    north = tell(book, catalog, "q2", vector=NORTH, bad="good")
    assert east.topic != north.topic
    assert weights(book, vector=EAST)["good"] > 1 > weights(book, vector=NORTH)["good"]
    assert weights(book, vector=-EAST) == {"good": 1.0, "bad": 1.0}
    assert book.assign(EAST, encoder="another", topic=None, spaces=SPACES).topic is None


def test_the_clients_own_topic_is_used_whatever_the_words_are_near(book: TrustService, catalog: Catalog) -> None:
    tell(book, catalog, "q1", vector=EAST)
    mine = tell(book, catalog, "q2", vector=EAST, topic="mine", bad="good")
    assert mine.topic == "mine"
    assert weights(book, topic="mine")["bad"] > 1 > weights(book, topic="never heard of")["bad"] - 0.01


def test_when_there_is_no_room_for_another_topic_the_nearest_is_used(catalog: Catalog) -> None:
    book = TrustService(catalog, TrustSettings(topics=1))
    first = tell(book, catalog, "q1", vector=EAST)
    assert tell(book, catalog, "q2", vector=NORTH).topic == first.topic
    with pytest.raises(InvalidRequestError, match="at most 1"):
        tell(book, catalog, "q3", topic="mine")


def test_the_same_feedback_changes_nothing_twice(book: TrustService, catalog: Catalog) -> None:
    first = tell(book, catalog, "q1")
    again = book.learn(FeedbackRequest(query_id="q1", relevant=["right", "right"], irrelevant=["wrong"], eta=1.0))
    assert not again.applied
    assert again.event_id is None
    assert again.before == again.after == first.after
    assert len(book.events()) == 1
    other = book.learn(FeedbackRequest(query_id="q1", relevant=["right"], irrelevant=["wrong", "other"]))
    assert other.applied


def test_pictures_that_the_answer_does_not_hold_are_named_and_teach_nothing(book: TrustService, catalog: Catalog) -> None:
    tell(book, catalog, "q1")
    result = book.learn(FeedbackRequest(query_id="q1", relevant=["stranger"], irrelevant=["wrong", "alien"]))
    assert result.ignored == ["stranger", "alien"]
    assert result.applied
    nothing = book.learn(FeedbackRequest(query_id="q1", relevant=["stranger"]))
    assert (nothing.applied, nothing.event_id, nothing.ignored) == (False, None, ["stranger"])
    assert nothing.before == nothing.after
    assert len(book.events()) == 2


@pytest.mark.parametrize(("relevant", "irrelevant"), [([], []), (["right"], ["right"])])
def test_feedback_that_says_nothing_or_contradicts_itself_is_refused(
    book: TrustService, catalog: Catalog, relevant: list[str], irrelevant: list[str]
) -> None:
    tell(book, catalog, "q1")
    with pytest.raises(InvalidRequestError):
        book.learn(FeedbackRequest(query_id="q1", relevant=relevant, irrelevant=irrelevant))
    assert len(book.events()) == 1


def test_an_unknown_query_and_a_search_by_picture_are_refused(book: TrustService, catalog: Catalog) -> None:
    with pytest.raises(NotFoundError, match="nobody"):
        book.learn(FeedbackRequest(query_id="nobody", relevant=["right"]))
    record_trace(catalog, trace_of_scores("q1", {"good": GOOD, "bad": BAD}, text=""))
    with pytest.raises(InvalidRequestError, match="by picture"):
        book.learn(FeedbackRequest(query_id="q1", relevant=["right"]))


@pytest.mark.parametrize("eta", [0, -0.1, 1.1, float("nan"), float("inf")])
def test_a_rate_out_of_range_is_refused(eta: float) -> None:
    with pytest.raises(ValidationError):
        FeedbackRequest(query_id="q1", relevant=["right"], eta=eta)


def test_the_rate_says_how_far_one_feedback_moves(book: TrustService, catalog: Catalog) -> None:
    slow = tell(book, catalog, "q1", topic="slow")
    fast = record_trace(catalog, trace_of_scores("q2", {"good": GOOD, "bad": BAD}, topic="fast"))
    result = book.learn(FeedbackRequest(query_id=fast.query_id, relevant=["right"], irrelevant=["wrong"], eta=1.0))
    assert result.after["good"] > slow.after["good"]


def test_new_spaces_start_from_their_prior_within_a_topic_that_has_learnt(catalog: Catalog) -> None:
    book = TrustService(catalog, TrustSettings(), priors={"new": 0.5})
    tell(book, catalog, "q1")
    learnt = dict(book.assign(EAST, encoder=ENCODER, topic=None, spaces=SPACES).weights)
    found = dict(book.assign(EAST, encoder=ENCODER, topic=None, spaces=[*SPACES, "new"]).weights)
    assert sum(found.values()) == pytest.approx(3.0)
    assert found["good"] / found["bad"] == pytest.approx(learnt["good"] / learnt["bad"])
    assert found["new"] / (found["good"] + found["bad"]) == pytest.approx(0.25)


# Undo, reset, replay


def test_undoing_the_last_feedback_restores_everything_exactly(book: TrustService, catalog: Catalog) -> None:
    for number in range(7):
        tell(book, catalog, f"q{number}", bad="good" if number % 3 else "bad")
    before = (book.export(), weights(book), catalog.trust_topics()[1])
    last = tell(book, catalog, "last")
    assert book.export() != before[0]
    assert last.event_id is not None
    undo = book.undo(last.event_id)
    assert (book.export(), weights(book), catalog.trust_topics()[1]) == before
    assert (undo.topic, undo.cause) == (last.topic, last.event_id)
    assert undo.before != undo.after
    assert book.replay() == book.show()


def test_undoing_an_older_feedback_leaves_what_the_others_alone_give(tmp_path: Path, catalog: Catalog) -> None:
    book = TrustService(catalog, TrustSettings())
    results = [tell(book, catalog, f"q{number}", bad="good" if number == 2 else "bad") for number in range(5)]
    assert results[2].event_id is not None
    book.undo(results[2].event_id)
    with Catalog.open(tmp_path / "other.sqlite") as elsewhere:
        without = TrustService(elsewhere, TrustSettings())
        for number in (0, 1, 3, 4):
            tell(without, elsewhere, f"q{number}")
        assert book.export() == without.export()
    assert book.replay() == book.show()


def test_an_undo_is_itself_undone_and_nothing_is_undone_twice(book: TrustService, catalog: Catalog) -> None:
    first = tell(book, catalog, "q1")
    assert first.event_id is not None
    undo = book.undo(first.event_id)
    assert book.show().topics == []
    with pytest.raises(InvalidRequestError, match="undone already"):
        book.undo(first.event_id)
    book.undo(undo.event_id)
    assert weights(book) == first.after
    assert not book.learn(FeedbackRequest(query_id="q1", relevant=["right"], irrelevant=["wrong"])).applied
    with pytest.raises(NotFoundError):
        book.undo("nothing")


def test_feedback_that_was_undone_may_be_given_again_but_then_counts_once(book: TrustService, catalog: Catalog) -> None:
    first = tell(book, catalog, "q1")
    assert first.event_id is not None
    undo = book.undo(first.event_id)
    again = book.learn(FeedbackRequest(query_id="q1", relevant=["right"], irrelevant=["wrong"]))
    assert again.applied
    assert again.after == first.after
    with pytest.raises(InvalidRequestError, match="given again"):
        book.undo(undo.event_id)
    assert weights(book) == first.after


def test_a_reset_forgets_one_topic_or_all_and_can_be_undone(book: TrustService, catalog: Catalog) -> None:
    tell(book, catalog, "q1", topic="dogs")
    tell(book, catalog, "q2", topic="cats")
    before = book.export()
    reset = book.reset("dogs")
    assert [topic.topic for topic in book.show().topics] == ["cats"]
    assert reset.after == {}
    with pytest.raises(UnknownNameError, match="dogs"):
        book.reset("dogs")
    assert book.learn(FeedbackRequest(query_id="q1", relevant=["right"], irrelevant=["wrong"])).applied
    everything = book.reset()
    assert book.show().topics == []
    assert set(everything.details["changed"]) == {"cats", "dogs"}
    book.undo(everything.event_id)
    assert book.replay() == book.show()
    assert [topic.topic for topic in book.show().topics] == ["cats", "dogs"]
    assert book.export()["topics"][0] == before["topics"][0]


def test_every_change_is_logged_with_its_cause(book: TrustService, catalog: Catalog) -> None:
    first = tell(book, catalog, "q1")
    assert first.event_id is not None
    book.undo(first.event_id)
    book.reset()
    undone, learnt = book.events(offset=1)
    assert (learnt.kind, learnt.cause, learnt.topic, learnt.before, learnt.after) == (
        "feedback",
        "q1",
        first.topic,
        first.before,
        first.after,
    )
    assert (undone.kind, undone.cause) == ("undo", first.event_id)
    assert [event.kind for event in book.events(topic=first.topic)] == ["undo", "feedback"]


# Export and import


def test_exported_trust_is_the_same_in_another_home(tmp_path: Path, book: TrustService, catalog: Catalog) -> None:
    for number in range(5):
        tell(book, catalog, f"q{number}", vector=EAST if number % 2 else NORTH)
    written = json.dumps(book.export())
    with Catalog.open(tmp_path / "other.sqlite") as elsewhere:
        other = TrustService(elsewhere, TrustSettings())
        kept = tell(other, elsewhere, "mine", topic="mine", vector=-EAST)
        imported = other.import_(json.loads(written))
        assert weights(other) == weights(book)
        assert other.assign(EAST, encoder=ENCODER, topic="mine", spaces=SPACES).weights == kept.after
        topics = [topic for topic in other.export()["topics"] if topic["topic"] != "mine"]
        assert topics == book.export()["topics"]
        assert other.replay() == other.show()
        other.undo(imported.event_id)
        assert [topic.topic for topic in other.show().topics] == ["mine"]


@pytest.mark.parametrize(
    "change",
    [
        {"weights": {"good": 0.0}},
        {"weights": {"good": float("nan")}},
        {"weights": {"good": "much"}},
        {"topic": " "},
        {"centre": [0.0, 0.0]},
        {"encoder": None},
        {"centre": [1.0, float("inf")]},
        {"surprise": 1},
        {"queries": 2**63},
    ],
)
def test_an_import_that_is_wrong_is_refused_whole(book: TrustService, catalog: Catalog, change: dict[str, object]) -> None:
    tell(book, catalog, "q1")
    content = book.export()
    content["topics"].append(content["topics"][0] | {"topic": "second"} | change)
    before = book.show()
    with pytest.raises(InvalidRequestError, match="no export"):
        book.import_(content)
    assert book.show() == before


@pytest.mark.parametrize("content", [None, [], {}, {"format": 2, "topics": []}, "text"])
def test_something_else_is_no_export(book: TrustService, content: object) -> None:
    with pytest.raises(InvalidRequestError, match="no export"):
        book.import_(content)


def test_an_import_may_not_bring_a_topic_twice_or_too_many(catalog: Catalog) -> None:
    book = TrustService(catalog, TrustSettings(topics=2))
    tell(book, catalog, "q1", topic="a")
    topic = book.export()["topics"][0]
    with pytest.raises(InvalidRequestError, match="twice"):
        book.import_({"format": 1, "topics": [topic, topic]})
    with pytest.raises(InvalidRequestError, match="at most 2"):
        book.import_({"format": 1, "topics": [topic | {"topic": name} for name in ("b", "c")]})


# Several processes

_TEACHER = """
import sys
from pathlib import Path
from lodestone.catalog.catalog import Catalog
from lodestone.config.settings import TrustSettings
from lodestone.trust.service import TrustService
from lodestone_schemas.api import FeedbackRequest

sys.stdin.readline()
with Catalog.open(Path(sys.argv[1])) as catalog:
    book = TrustService(catalog, TrustSettings())
    for number in range(15):
        for query in (f"{sys.argv[2]}-{number}", f"shared-{number}"):
            book.learn(FeedbackRequest(query_id=query, relevant=["right"], irrelevant=["wrong"]))
"""


def test_processes_that_teach_at_once_lose_nothing_and_count_nothing_twice(tmp_path: Path, catalog: Catalog) -> None:
    for name in ("a", "b", "shared"):
        for number in range(15):
            record_trace(catalog, trace_of_scores(f"{name}-{number}", {"good": GOOD, "bad": BAD}))
    command = [sys.executable, "-c", _TEACHER, str(tmp_path / "catalog.sqlite")]
    teachers = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for name in ("a", "b")
    ]
    for teacher in teachers:
        assert teacher.stdin is not None
        teacher.stdin.write("go\n")
        teacher.stdin.flush()
    for teacher in teachers:
        _, errors = teacher.communicate(timeout=240)
        assert teacher.returncode == 0, errors
    book = TrustService(catalog, TrustSettings())
    events = list(catalog.trust_events())
    assert sorted(event.cause for event in events) == sorted(f"{n}-{i}" for n in ("a", "b", "shared") for i in range(15))
    assert [event.seq for event in events] == list(range(1, 46))
    assert book.show().topics[0].queries == 45
    assert book.replay() == book.show()


def test_a_change_of_another_process_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, book: TrustService, catalog: Catalog
) -> None:
    assert weights(book) == {"good": 1.0, "bad": 1.0}
    with Catalog.open(tmp_path / "catalog.sqlite") as again:
        other = TrustService(again, TrustSettings())
        result = tell(other, again, "q1")
    assert weights(book) == {"good": 1.0, "bad": 1.0}
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2.0)
    assert weights(book) == result.after


def test_a_change_that_never_gets_its_turn_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, book: TrustService, catalog: Catalog
) -> None:
    tell(book, catalog, "q1")
    monkeypatch.setattr(catalog, "append_trust_event", lambda *_, **__: False)
    with pytest.raises(CatalogError, match="waited for its turn"):
        book.reset()
