"""Trust of each topic, and the events that changed it.

The topics are the sum of the events; each event is appended together with the topics it changes, and only if no other event was
appended since the caller read them (its `seq` is still free). So two processes that learn at once never overwrite each other:
the second one reads again and retries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, delete, func, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.reader import RetryingReader
from lodestone.catalog.database.sql import chunks, insert_ignoring, upsert
from lodestone.catalog.use.queries import feedback_row
from lodestone.catalog.use_records import FeedbackRecord, TopicRecord, TrustEvent

_PAGE = 200  # events a page: each holds a vector


class TrustRows(CatalogBase):
    """Part of the catalog that keeps trust topics and trust events."""

    def trust_seq(self) -> int:
        """Return the number of the last event, 0 before the first. It is cheap, and shows if another process changed trust."""
        with self._reading() as connection:
            return _last_seq(connection)

    def trust_topics(self) -> tuple[int, list[TopicRecord]]:
        """Return the number of the last event, and the topics after it, by name."""
        query = select(tables.trust_topics).order_by(tables.trust_topics.c.topic)
        while True:
            with self._reading() as connection:
                seq = _last_seq(connection)
                topics = [TopicRecord(*row) for row in connection.execute(query)]
                # On PostgreSQL each statement sees the newest data; on SQLite all see one snapshot.
                if _last_seq(connection) == seq:
                    return seq, topics

    def append_trust_event(
        self,
        event: TrustEvent,
        *,
        topics: Sequence[TopicRecord],
        dropped: Collection[str] = (),
        feedback: FeedbackRecord | None = None,
        activated: Collection[str] = (),
        deactivated: Collection[str] = (),
    ) -> bool:
        """Append `event` with the topics as it changed them; return False, and change nothing, if its `seq` is taken.

        Args:
            event: Its `seq` is one more than that of the last event which the caller has seen.
            topics: Topics that are new or changed.
            dropped: Topics that are deleted.
            feedback: The feedback behind it; replaces the same feedback recorded before.
            activated: Events whose feedback counts again.
            deactivated: Events whose feedback no longer counts.
        """
        events, topic_rows, judgements = tables.trust_events, tables.trust_topics, tables.feedback

        def change(connection: Connection) -> bool:
            if _last_seq(connection) != event.seq - 1 or not insert_ignoring(connection, events, [asdict(event)]):
                return False
            for chunk in chunks(dropped):
                connection.execute(delete(topic_rows).where(topic_rows.c.topic.in_(chunk)))
            upsert(connection, topic_rows, [asdict(topic) for topic in topics])
            for ids, active in ((activated, True), (deactivated, False)):
                for chunk in chunks(ids):
                    connection.execute(update(judgements).where(judgements.c.event_id.in_(chunk)).values(active=active))
            if feedback is not None:
                upsert(connection, judgements, [feedback_row(feedback)])
            return True

        return self._write(change)

    def trust_event(self, event_id: str) -> TrustEvent | None:
        """Return one event; None if there is none with that id."""
        with self._reading() as connection:
            row = connection.execute(select(tables.trust_events).where(tables.trust_events.c.event_id == event_id)).first()
        return None if row is None else TrustEvent(*row)

    def trust_events(self, *, after: int = 0) -> Iterator[TrustEvent]:
        """Yield all events after number `after`, oldest first, read a page at a time."""
        table = tables.trust_events
        rows = self._streamed(select(table), (table.c.seq,), after=(after,), at_once=_PAGE)
        return (TrustEvent(*row) for row in rows)

    def recent_trust_events(self, *, topic: str | None = None, offset: int = 0, limit: int = 100) -> list[TrustEvent]:
        """Return a page of events of one topic, or of all, newest first."""
        table = tables.trust_events
        query = select(table).order_by(table.c.seq.desc()).offset(offset).limit(limit)
        if topic is not None:
            query = query.where(table.c.topic == topic)
        with self._reading() as connection:
            return [TrustEvent(*row) for row in connection.execute(query)]


def _last_seq(connection: Connection | RetryingReader) -> int:
    return int(connection.execute(select(func.coalesce(func.max(tables.trust_events.c.seq), 0))).scalar_one())
