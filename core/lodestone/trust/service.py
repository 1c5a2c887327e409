"""Trust in each space for a query, and the changes that feedback makes to it.

Trust is learned as in NEEDLE, E.1: one weight per topic and space. The catalog keeps the topics and every event that changed
them. Reads come from memory, which is checked for other processes' changes once a second. A write appends one event to the
newest state, and starts again when another process wrote first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.use_records import FeedbackRecord, TrustEvent
from lodestone.config.settings import TrustSettings
from lodestone.errors import CatalogError, InvalidRequestError, NotFoundError, UnknownNameError
from lodestone.query_log.trace import Trace, load_trace
from lodestone.trust.events import FEEDBACK, IMPORT, RESET, UNDO, applied, before_and_after, changed, counting, in_force, replay
from lodestone.trust.exchange import checked, exported
from lodestone.trust.losses import Judgement, judge
from lodestone.trust.rule import relative
from lodestone.trust.state import StateReader, TrustState
from lodestone.trust.topics import Topic, Topics, new_name
from lodestone_schemas.api import FeedbackRequest, FeedbackResult, TrustInfo, TrustPage

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog

_T = TypeVar("_T")
_ATTEMPTS: Final = 100  # an attempt fails only when another process's change was written first


@dataclass(frozen=True, slots=True)
class TopicTrust:
    """Holds the trust for one query.

    Attributes:
        topic: Name of the query's topic; None when no topic with feedback is near the query.
        weights: Space -> trust, > 0; their mean is 1.
    """

    topic: str | None
    weights: Mapping[str, float]


class TrustService:
    """Manages the trust of one home; thread-safe, and safe for several processes with one object each. All methods block.

    Args:
        catalog: The catalog that holds topics and events.
        settings: Learning rate, floor, and highest number of topics.
        priors: Space -> trust before any feedback, > 0; 1 for a space that is not in it.
    """

    def __init__(self, catalog: Catalog, settings: TrustSettings, *, priors: Mapping[str, float] | None = None) -> None:
        self._catalog = catalog
        self._settings = settings
        self._priors = dict(priors or {})
        self._state = StateReader(catalog, most=settings.topics)

    @property
    def in_memory(self) -> bool:
        """Whether `assign` would read nothing but memory now, so that it needs no thread."""
        return self._state.is_recent

    def assign(self, text_vector: NDArray[np.float32], *, encoder: str, topic: str | None, spaces: Sequence[str]) -> TopicTrust:
        """Return the trust for a query; nothing is changed.

        Args:
            text_vector: (d,) float32, L2-normalised vector of the query's text.
            encoder: Text encoder that made the vector.
            topic: Topic that the client named; None for the nearest one.
            spaces: Spaces that are searched.
        """
        state = self._state.recent()
        name = state.index.nearest(text_vector, encoder) if topic is None else _tidy(topic)
        return TopicTrust(name, self._weights(state.topics, name, spaces))

    def learn(self, request: FeedbackRequest) -> FeedbackResult:
        """Apply feedback on a recorded query to its topic's weights; the same feedback a second time changes nothing.

        The topic is the one that the client named, else the nearest at this moment, else a new one.

        Raises:
            InvalidRequestError: nothing is judged, a picture is called both right and wrong, or the search was by picture.
            NotFoundError: the query is unknown or no longer kept.
        """
        feedback = FeedbackRecord.of(request.query_id, request.relevant, request.irrelevant, request.eta or self._settings.eta)
        _check(feedback)
        trace = load_trace(self._catalog, request.query_id)
        if not trace.text:
            raise InvalidRequestError(
                f"query {request.query_id!r} was a search by picture, which has no topic to learn for",
                hint="give feedback on a search in words",
            )
        judgement = judge(trace, request.relevant, request.irrelevant)
        spaces = sorted(trace.space_weights)

        def attempt(state: TrustState) -> FeedbackResult | None:
            name, vector, encoder = self._topic_of(trace, state)
            before = self._weights(state.topics, name, spaces)
            earlier = self._catalog.find_feedback(feedback.query_id, feedback.relevant, feedback.irrelevant)
            if not judgement.losses or (earlier is not None and earlier.active):
                return _result(feedback.query_id, name, judgement, before=before)
            self._check_room(state.topics, name)
            details = self._details(trace, judgement, feedback, encoder=encoder)
            event = _event(state, FEEDBACK, topic=name, cause=feedback.query_id, details=details, vector=vector)
            after = applied(state.topics, event)
            weights = self._weights(after, name, spaces)
            event = replace(event, before=before, after=weights)
            record = replace(feedback, event_id=event.event_id, active=True)
            if not self._append(event, state.topics, after, feedback=record):
                return None
            return _result(feedback.query_id, name, judgement, before=before, after=weights, event_id=event.event_id)

        return self._until_done(attempt)

    def undo(self, event_id: str) -> TrustEvent:
        """Cancel one event, so that the state is exactly what all other events give; return the undo's own event.

        Raises:
            NotFoundError: there is no such event.
            InvalidRequestError: the event is undone already, or its feedback was given again after it was undone.
        """
        if self._catalog.trust_event(event_id) is None:
            raise NotFoundError(
                f"there is no change of trust {event_id!r}", hint="see `lodestone trust show`", event_id=event_id
            )

        def attempt(state: TrustState) -> TrustEvent | None:
            events = list(self._catalog.trust_events())
            active = {event.event_id for event in in_force(events)}
            undo = _event(state, UNDO, topic=None, cause=event_id, details={})
            with_undo = [*events, undo]
            still_active = {event.event_id for event in in_force(with_undo)}
            if still_active == active:
                raise InvalidRequestError(f"{event_id!r} is undone already", hint="undo its undo to bring it back")
            _check_once(with_undo)
            return self._finish(undo, state, events, replay(with_undo))

        return self._until_done(attempt)

    def reset(self, topic: str | None = None) -> TrustEvent:
        """Forget one topic, or all of them; their feedback may be given again, and an undo restores everything.

        Raises:
            UnknownNameError: there is no such topic.
        """
        name = None if topic is None else _tidy(topic)

        def attempt(state: TrustState) -> TrustEvent | None:
            if name is not None and name not in state.topics:
                raise UnknownNameError.among("topic", name, list(state.topics))
            event = _event(state, RESET, topic=name, cause="", details={})
            return self._finish(event, state, list(self._catalog.trust_events()), applied(state.topics, event))

        return self._until_done(attempt)

    def export(self) -> dict[str, Any]:
        """Return all topics as JSON, in the format of `exchange`."""
        topics = self._state.newest().topics
        return exported(topics[name] for name in sorted(topics))

    def import_(self, content: object) -> TrustEvent:
        """Import exported topics; they replace those of the same name, and others stay.

        Raises:
            InvalidRequestError: the content is no export, or there would be more topics than the setting `trust.topics` allows.
        """
        topics = checked(content)

        def attempt(state: TrustState) -> TrustEvent | None:
            event = _event(state, IMPORT, topic=None, cause="", details={"topics": topics})
            after = applied(state.topics, event)
            self._check_room(state.topics, *after)
            return self._finish(event, state, list(self._catalog.trust_events()), after)

        return self._until_done(attempt)

    def show(self) -> TrustPage:
        """Return the present weights of every topic."""
        topics = self._state.newest().topics
        return TrustPage(topics=[self._info(topics[name]) for name in sorted(topics)])

    def events(self, *, topic: str | None = None, offset: int = 0, limit: int = 100) -> list[TrustEvent]:
        """Return a page of the events that changed trust, newest first."""
        return self._catalog.recent_trust_events(topic=topic, offset=offset, limit=limit)

    def replay(self) -> TrustPage:
        """Return the weights that the events alone give; they equal those of `show` to the last bit."""
        topics = replay(self._catalog.trust_events())
        return TrustPage(topics=[self._info(topics[name]) for name in sorted(topics)])

    def _info(self, topic: Topic) -> TrustInfo:
        weights = topic.weights or {}
        return TrustInfo(
            topic=topic.name, words=list(topic.words), queries=topic.queries, weights=relative(weights, weights, self._priors)
        )

    def _weights(self, topics: Topics, name: str | None, spaces: Sequence[str]) -> dict[str, float]:
        stored = topics.get(name) if name is not None else None
        return relative((stored.weights if stored else None) or {}, spaces, self._priors)

    def _check_room(self, topics: Topics, *names: str) -> None:
        wanted = len(topics.keys() | set(names))
        if wanted > max(self._settings.topics, len(topics)):
            raise InvalidRequestError(
                f"there would be {wanted} topics, at most {self._settings.topics} are allowed",
                hint="raise trust.topics, or reset some: lodestone trust reset",
            )

    def _topic_of(self, trace: Trace, state: TrustState) -> tuple[str, NDArray[np.float32] | None, str | None]:
        """Return the topic that a query's feedback changes, the vector that it adds to the centre, and the encoder."""
        used = {topic.encoder for topic in state.topics.values()}
        # Sorting is stable, so the engine's own encoder comes first.
        encoders = sorted(trace.text_vectors, key=lambda name: name not in used)
        encoder = encoders[0] if encoders else None
        vector = None if encoder is None else np.asarray(trace.text_vectors[encoder], np.float32).reshape(-1)
        if named := trace.request.get("topic"):
            return _tidy(str(named)), vector, encoder
        nearest = None if vector is None or encoder is None else state.index.nearest(vector, encoder)
        return nearest or new_name(trace.text, vector), vector, encoder

    def _details(self, trace: Trace, judgement: Judgement, feedback: FeedbackRecord, *, encoder: str | None) -> dict[str, Any]:
        return {
            "losses": judgement.losses,
            "eta": feedback.eta,
            "floor": self._settings.floor,
            "priors": {space: self._priors.get(space, 1.0) for space in judgement.losses},
            "encoder": encoder,
            "text": trace.text,
            "digest": feedback.digest,
        }

    def _finish(self, event: TrustEvent, state: TrustState, events: list[TrustEvent], after: Topics) -> TrustEvent | None:
        """Append an event that changes whole topics, with the differences and the feedback that counts after it.

        None if overtaken.
        """
        differences = before_and_after(state.topics, after)
        event = replace(event, details=event.details | {"changed": differences})
        if len(differences) == 1:
            ((name, difference),) = differences.items()
            event = replace(event, topic=name if event.kind == UNDO else event.topic, **difference)
        counted = {earlier.event_id for earlier in counting(events)}
        counts = {earlier.event_id for earlier in counting([*events, event])}
        appended = self._append(
            event, state.topics, after, activated=sorted(counts - counted), deactivated=sorted(counted - counts)
        )
        return event if appended else None

    def _append(self, event: TrustEvent, before: Topics, after: Topics, **feedback: Any) -> bool:  # noqa: ANN401 (passed on)
        records, dropped = changed(before, after)
        return self._catalog.append_trust_event(event, topics=records, dropped=dropped, **feedback)

    def _until_done(self, attempt: Callable[[TrustState], _T | None]) -> _T:
        for _ in range(_ATTEMPTS):
            result = attempt(self._state.newest())
            if result is not None:
                self._state.newest()
                return result
        raise CatalogError(
            f"trust changed {_ATTEMPTS} times while one change waited for its turn", hint="try again when less is going on"
        )


def _tidy(topic: str) -> str:
    return " ".join(topic.split())


def _check(feedback: FeedbackRecord) -> None:
    if not feedback.relevant and not feedback.irrelevant:
        raise InvalidRequestError("the feedback judges no picture", hint="give ids of relevant or irrelevant pictures")
    contradictory = sorted(set(feedback.relevant) & set(feedback.irrelevant))
    if contradictory:
        raise InvalidRequestError(
            f"picture {contradictory[0]!r} is called both relevant and irrelevant",
            hint="name it on one side",
            image_ids=contradictory,
        )


def _check_once(events: Sequence[TrustEvent]) -> None:
    seen: set[tuple[str, str]] = set()
    for event in counting(events):
        key = (event.cause, event.details["digest"])
        if key in seen:
            raise InvalidRequestError(
                f"the feedback on query {event.cause!r} was given again since it was undone",
                hint="undo the later one first: see `lodestone trust show`",
            )
        seen.add(key)


def _event(
    state: TrustState,
    kind: str,
    *,
    topic: str | None,
    cause: str,
    details: dict[str, Any],
    vector: NDArray[np.float32] | None = None,
) -> TrustEvent:
    return TrustEvent(
        seq=state.seq + 1,
        event_id=str(uuid4()),
        created_at=datetime.now(UTC),
        kind=kind,
        topic=topic,
        cause=cause,
        before={},
        after={},
        details=details,
        vector=None if vector is None else vector.tobytes(),
    )


def _result(
    query_id: str,
    topic: str,
    judgement: Judgement,
    *,
    before: dict[str, float],
    after: dict[str, float] | None = None,
    event_id: str | None = None,
) -> FeedbackResult:
    return FeedbackResult(
        query_id=query_id,
        topic=topic,
        applied=event_id is not None,
        event_id=event_id,
        before=before,
        after=before if after is None else after,
        ignored=judgement.ignored,
    )
