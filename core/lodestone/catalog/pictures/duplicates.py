"""Groups of pictures that are copies of each other.

A group has a representative, whose image id is the group's id. Groups of a kind and corpus are replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, literal, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.reader import RetryingReader
from lodestone.catalog.database.sql import PAGE, chunks
from lodestone.catalog.records import DuplicateRecord, ImageState, RunState

EXACT, NEAR = "exact", "near"
SEARCH = "duplicates"  # kind of the runs that look for near copies
_KEY = (tables.duplicates.c.group_id, tables.duplicates.c.distance, tables.duplicates.c.image_id)


class DuplicateRows(CatalogBase):
    """Part of the catalog that keeps groups of copies."""

    def put_duplicates(self, kind: str, corpus_id: str, groups: Iterable[Sequence[tuple[str, float]]]) -> int:
        """Replace the corpus's groups of a kind, in one transaction, and return the number of pictures in groups.

        Args:
            kind: `exact` or `near`.
            corpus_id: The corpus.
            groups: Members of each group as (image id, distance to the first); the first represents the group, at 0.

        Raises:
            CatalogError: A picture is unknown, or in two groups.
        """
        table = tables.duplicates
        rows = [
            {"image_id": image_id, "kind": kind, "corpus_id": corpus_id, "group_id": group[0][0], "distance": float(distance)}
            for group in groups
            for image_id, distance in group
        ]

        def change(connection: Connection) -> int:
            connection.execute(delete(table).where(table.c.kind == kind, table.c.corpus_id == corpus_id))
            for chunk in chunks(rows, PAGE):
                connection.execute(insert(table), chunk)
            return len(rows)

        return self._write(change)

    def find_exact_duplicates(self, corpus_id: str) -> int:
        """Group the corpus's pending and active pictures with equal content, and return the number of grouped pictures.

        The representative of a group is its picture with the lowest id.
        """
        images, table = tables.images, tables.duplicates
        is_living = (images.c.corpus_id == corpus_id, images.c.state.in_([ImageState.PENDING, ImageState.ACTIVE]))
        groups = (
            select(images.c.hash, func.min(images.c.image_id).label("group_id"))
            .where(*is_living)
            .group_by(images.c.hash)
            .having(func.count() > 1)
            .subquery()
        )
        rows = (
            select(images.c.image_id, literal(EXACT), images.c.corpus_id, groups.c.group_id, literal(0.0))
            .join(groups, groups.c.hash == images.c.hash)
            .where(*is_living)
        )
        names = ["image_id", "kind", "corpus_id", "group_id", "distance"]

        def change(connection: Connection) -> int:
            connection.execute(delete(table).where(table.c.kind == EXACT, table.c.corpus_id == corpus_id))
            connection.execute(insert(table).from_select(names, rows))
            count = select(func.count()).where(table.c.kind == EXACT, table.c.corpus_id == corpus_id)
            return int(connection.execute(count).scalar_one())

        return self._write(change)

    def duplicates(self, *, kind: str | None = None, corpus_id: str | None = None) -> Iterator[DuplicateRecord]:
        """Return the pictures in groups of one kind (or both) and corpus (or all), by group, nearest to the first one first.

        They are read a page at a time. Pictures that went since their group was made are left out.
        """
        table, images = tables.duplicates, tables.images
        gone_images = select(images.c.image_id).where(
            images.c.image_id == table.c.image_id, images.c.state.in_([ImageState.GONE, ImageState.FAILED])
        )
        query = select(table).where(~gone_images.exists())
        if kind is not None:
            query = query.where(table.c.kind == kind)
        if corpus_id is not None:
            query = query.where(table.c.corpus_id == corpus_id)
        return (DuplicateRecord(*row) for row in self._streamed(query, (table.c.kind, *_KEY)))

    def has_compared_pictures(self) -> bool:
        """Return whether a search for pictures that look alike has ended well in any corpus."""
        runs = tables.runs
        done = select(runs.c.run_id).where(runs.c.kind == SEARCH, runs.c.state == RunState.DONE.value)
        with self._reading() as connection:
            return connection.execute(done.limit(1)).first() is not None

    def duplicate_groups(self, image_ids: Iterable[str]) -> dict[str, str]:
        """Return the group id of each picture; pictures without copies are left out.

        Groups of both kinds that share a picture count as one: equal files are in one group with the near copies of any of
        them.
        """
        ids = list(dict.fromkeys(image_ids))
        with self._reading() as connection:
            groups_by_kind = _group_ids(connection, ids)
            exact = {group for kinds in groups_by_kind.values() if (group := kinds.get(EXACT)) and NEAR not in kinds}
            of_exact = _group_ids(connection, exact - groups_by_kind.keys()) | {
                key: groups_by_kind[key] for key in exact & groups_by_kind.keys()
            }
        groups: dict[str, str] = {}
        for image_id, kinds in groups_by_kind.items():
            exact_group = kinds.get(EXACT, image_id)
            groups[image_id] = kinds.get(NEAR) or of_exact.get(exact_group, {}).get(NEAR) or exact_group
        return groups


def _group_ids(connection: Connection | RetryingReader, image_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    table = tables.duplicates
    groups_by_kind: dict[str, dict[str, Any]] = {}
    for chunk in chunks(image_ids):
        query = select(table.c.image_id, table.c.kind, table.c.group_id).where(table.c.image_id.in_(chunk))
        for image_id, kind, group_id in connection.execute(query):
            groups_by_kind.setdefault(image_id, {})[kind] = group_id
    return groups_by_kind
