"""Replay of trust events: the state is what the active events give, applied in their order.

An `undo` deactivates one earlier event, whatever its position: the state becomes what the other events alone give. So undoing
the last event restores the earlier weights exactly, and undoing an older one keeps what was learned after it, as if the undone
event had never been. An undo can itself be undone.

The event holds losses, rate, floor and priors. Replaying it needs neither the query's record nor today's settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lodestone.catalog.use_records import TopicRecord, TrustEvent
from lodestone.trust.rule import learnt
from lodestone.trust.topics import WORDS, Topic, Topics

FEEDBACK, RESET, IMPORT, UNDO = "feedback", "reset", "import", "undo"


def in_force(events: Iterable[TrustEvent]) -> list[TrustEvent]:
    """Return the active events, oldest first: those that no active undo names. Undos themselves are left out."""
    undone: set[str] = set()
    kept: list[TrustEvent] = []
    for event in reversed(list(events)):
        if event.event_id in undone:
            continue
        if event.kind == UNDO:
            undone.add(event.cause)
        else:
            kept.append(event)
    return kept[::-1]


def replay(events: Iterable[TrustEvent]) -> dict[str, Topic]:
    """Return the state that all `events` give."""
    topics: dict[str, Topic] = {}
    for event in in_force(events):
        topics = applied(topics, event)
    return topics


def counting(events: Iterable[TrustEvent]) -> list[TrustEvent]:
    """Return the feedback events that the state still depends on: active, and not erased by a later reset or import."""
    by_topic: dict[str | None, list[TrustEvent]] = {}
    for event in in_force(events):
        if event.kind == FEEDBACK:
            by_topic.setdefault(event.topic, []).append(event)
        elif event.kind == RESET and event.topic is None:
            by_topic.clear()
        else:
            wiped = [event.topic] if event.kind == RESET else [topic["topic"] for topic in event.details["topics"]]
            for name in wiped:
                by_topic.pop(name, None)
    return [event for group in by_topic.values() for event in group]


def applied(topics: Topics, event: TrustEvent) -> dict[str, Topic]:
    """Return the state after one active event; `topics` is not changed."""
    if event.kind == FEEDBACK and event.topic is not None:
        return dict(topics) | {event.topic: _taught(topics.get(event.topic, Topic(event.topic)), event)}
    if event.kind == RESET:
        return {} if event.topic is None else {name: topic for name, topic in topics.items() if name != event.topic}
    if event.kind == IMPORT:
        return dict(topics) | {topic_json["topic"]: from_json(topic_json) for topic_json in event.details["topics"]}
    return dict(topics)


def changed(before: Topics, after: Topics) -> tuple[list[TopicRecord], list[str]]:
    """Return what the catalog must write to get from one state to the other.

    Returns:
        New or changed topics, and the names of dropped ones.
    """
    records = {name: topic.to_record() for name, topic in after.items()}
    different = [record for name, record in records.items() if name not in before or before[name].to_record() != record]
    return different, sorted(before.keys() - after.keys())


def to_json(topic: Topic) -> dict[str, Any]:
    """Return a topic as JSON; floats are written so that reading gives the same values."""
    return {
        "topic": topic.name,
        "encoder": topic.encoder,
        "centre": None if topic.centre is None else topic.centre.tolist(),
        "queries": topic.queries,
        "weights": dict(topic.weights or {}),
        "words": list(topic.words),
    }


def from_json(found: dict[str, Any]) -> Topic:
    """Return the topic that `to_json` wrote."""
    centre = None if found["centre"] is None else np.array(found["centre"], np.float64)
    return Topic(found["topic"], found["encoder"], centre, found["queries"], found["weights"], tuple(found["words"]))


def _taught(topic: Topic, event: TrustEvent) -> Topic:
    details = event.details
    priors: dict[str, float] = details["priors"]
    weights = {space: priors[space] for space in sorted(details["losses"])} | dict(topic.weights or {})
    lowest = {space: details["floor"] * priors[space] for space in details["losses"]}
    weights = learnt(weights, details["losses"], eta=details["eta"], lowest=lowest)
    words = [*(text for text in topic.words if text != details["text"]), details["text"]] if details["text"] else topic.words
    taught = replace(topic, queries=topic.queries + 1, weights=weights, words=tuple(words[-WORDS:]))
    if event.vector is None:
        return taught
    vector = np.frombuffer(event.vector, np.float32).astype(np.float64)
    if topic.centre is None:
        return replace(taught, encoder=details["encoder"], centre=vector)
    if topic.encoder != details["encoder"] or len(topic.centre) != len(vector):
        return taught  # queries of a client's topic may come through two encoders; the centre stays the first one's
    return replace(taught, centre=topic.centre + vector)


def before_and_after(before: Topics, after: Topics) -> dict[str, Any]:
    """Return topic -> its weights before and after, for topics that differ; {} stands for a topic that does not exist."""
    names: Sequence[str] = sorted(before.keys() | after.keys())
    weights = {name: [dict(state[name].weights or {}) if name in state else {} for state in (before, after)] for name in names}
    return {name: {"before": old, "after": new} for name, (old, new) in weights.items() if old != new}
