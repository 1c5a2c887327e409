"""What do events make of trust? The state is the sum of the events that are in force, in their order, and nothing else.

An `undo` takes one earlier event out of force, wherever it stands: the state becomes what the other events alone give. So
undoing the last event restores the weights from before it exactly, and undoing an older one leaves what was learnt since, as
if it had never been. An undo can itself be undone.

Losses, rate, floor and priors stand in the event. Replaying it needs neither the query's record nor today's settings.
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
    """Events that count, oldest first: those that no undo in force names; undos themselves are left out."""
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
    """The state that all `events` give."""
    topics: dict[str, Topic] = {}
    for event in in_force(events):
        topics = applied(topics, event)
    return topics


def counting(events: Iterable[TrustEvent]) -> list[TrustEvent]:
    """Feedback events that the state still consists of: in force, and not wiped out by a later reset or import."""
    found: dict[str | None, list[TrustEvent]] = {}
    for event in in_force(events):
        if event.kind == FEEDBACK:
            found.setdefault(event.topic, []).append(event)
        elif event.kind == RESET and event.topic is None:
            found.clear()
        else:
            wiped = [event.topic] if event.kind == RESET else [one["topic"] for one in event.details["topics"]]
            for name in wiped:
                found.pop(name, None)
    return [event for group in found.values() for event in group]


def applied(topics: Topics, event: TrustEvent) -> dict[str, Topic]:
    """The state after one event that is in force; `topics` is not changed."""
    if event.kind == FEEDBACK and event.topic is not None:
        return dict(topics) | {event.topic: _taught(topics.get(event.topic, Topic(event.topic)), event)}
    if event.kind == RESET:
        return {} if event.topic is None else {name: topic for name, topic in topics.items() if name != event.topic}
    if event.kind == IMPORT:
        return dict(topics) | {one["topic"]: from_json(one) for one in event.details["topics"]}
    return dict(topics)


def changed(before: Topics, after: Topics) -> tuple[list[TopicRecord], list[str]]:
    """What the catalog must write to get from one state to the other: new or changed topics, names of dropped ones."""
    records = {name: topic.to_record() for name, topic in after.items()}
    different = [record for name, record in records.items() if name not in before or before[name].to_record() != record]
    return different, sorted(before.keys() - after.keys())


def to_json(topic: Topic) -> dict[str, Any]:
    """A topic as JSON; floats are written so that they come back as they were."""
    return {
        "topic": topic.name,
        "encoder": topic.encoder,
        "centre": None if topic.centre is None else topic.centre.tolist(),
        "queries": topic.queries,
        "weights": dict(topic.weights or {}),
        "words": list(topic.words),
    }


def from_json(found: dict[str, Any]) -> Topic:
    """The inverse of `to_json`."""
    centre = None if found["centre"] is None else np.array(found["centre"], np.float64)
    return Topic(found["topic"], found["encoder"], centre, found["queries"], found["weights"], tuple(found["words"]))


def _taught(topic: Topic, event: TrustEvent) -> Topic:
    details = event.details
    priors: dict[str, float] = details["priors"]
    weights = {space: priors[space] for space in sorted(details["losses"])} | dict(topic.weights or {})
    lowest = {space: details["floor"] * priors[space] for space in details["losses"]}
    weights = learnt(weights, details["losses"], eta=details["eta"], lowest=lowest)
    words = [*(one for one in topic.words if one != details["text"]), details["text"]] if details["text"] else topic.words
    moved = replace(topic, queries=topic.queries + 1, weights=weights, words=tuple(words[-WORDS:]))
    if event.vector is None:
        return moved
    vector = np.frombuffer(event.vector, np.float32).astype(np.float64)
    if topic.centre is None:
        return replace(moved, encoder=details["encoder"], centre=vector)
    if topic.encoder != details["encoder"] or len(topic.centre) != len(vector):
        return moved  # a client's topic may be asked through two encoders; the first one's centre stays
    return replace(moved, centre=topic.centre + vector)


def before_and_after(before: Topics, after: Topics) -> dict[str, Any]:
    """Topic -> its weights before and after, of topics that differ; {} where it is not there."""
    names: Sequence[str] = sorted(before.keys() | after.keys())
    found = {name: [dict(state[name].weights or {}) if name in state else {} for state in (before, after)] for name in names}
    return {name: {"before": old, "after": new} for name, (old, new) in found.items() if old != new}
