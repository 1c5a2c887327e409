"""Which model swaps were made, and what are spaces made of since?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row, delete, insert, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import upsert
from lodestone.catalog.records import SwapRecord, SwapState
from lodestone.errors import InvalidRequestError, NotFoundError

_OPEN = (SwapState.BACKFILL, SwapState.SHADOW)


class SwapRows(CatalogBase):
    """Model swaps, and what they changed of the profile's spaces."""

    def add_swap(self, space: str, target: str, *, old_collection: str, new_collection: str) -> SwapRecord:
        """Begin a swap, in the state BACKFILL.

        Raises:
            InvalidRequestError: another swap of the space is still going on.
        """
        table, now = tables.model_swaps, datetime.now(UTC)
        swap = SwapRecord(
            swap_id=str(uuid4()),
            space=space,
            target=target,
            old_collection=old_collection,
            new_collection=new_collection,
            state=SwapState.BACKFILL,
            created_at=now,
            updated_at=now,
            counts={},
            report={},
        )
        open_ones = select(table.c.swap_id).where(table.c.space == space, table.c.state.in_(_OPEN))

        def change(connection: Connection) -> SwapRecord:
            other = connection.execute(open_ones).scalar()
            if other is not None:
                raise InvalidRequestError(
                    f"a swap of the space {space!r} is going on already: {other}", hint="promote it, or cancel it, first"
                )
            row = {name: getattr(swap, name) for name in SwapRecord.__slots__} | {"state": swap.state.value}
            connection.execute(insert(table), row)
            return swap

        return self._write(change)

    def update_swap(
        self,
        swap_id: str,
        *,
        state: SwapState | None = None,
        counts: Mapping[str, Any] | None = None,
        report: Mapping[str, Any] | None = None,
        error: str | None = None,
    ) -> SwapRecord:
        """Record a swap's progress; what is None stays. Returns the swap as it is now.

        Raises:
            NotFoundError: there is no such swap.
        """
        table = tables.model_swaps
        changed: dict[str, Any] = {"updated_at": datetime.now(UTC)}
        if state is not None:
            changed["state"] = SwapState(state).value
        if counts is not None:
            changed["counts"] = dict(counts)
        if report is not None:
            changed["report"] = dict(report)
        if error is not None:
            changed["error"] = error

        def change(connection: Connection) -> SwapRecord:
            if not connection.execute(update(table).where(table.c.swap_id == swap_id).values(**changed)).rowcount:
                raise _no_swap(swap_id)
            return _swap(connection.execute(select(table).where(table.c.swap_id == swap_id)).one())

        return self._write(change)

    def swap(self, swap_id: str) -> SwapRecord:
        """One swap by its id; `NotFoundError` when there is none."""
        with self._reading() as connection:
            found = connection.execute(select(tables.model_swaps).where(tables.model_swaps.c.swap_id == swap_id)).first()
        if found is None:
            raise _no_swap(swap_id)
        return _swap(found)

    def swaps(self, limit: int = 20, *, space: str | None = None) -> list[SwapRecord]:
        """The latest swaps of one space (or of all), newest first."""
        table = tables.model_swaps
        query = select(table).order_by(table.c.created_at.desc(), table.c.swap_id).limit(limit)
        if space is not None:
            query = query.where(table.c.space == space)
        with self._reading() as connection:
            return [_swap(row) for row in connection.execute(query)]

    def set_override(self, space: str, definition: Mapping[str, Any], swap_id: str) -> None:
        """Say what a space is made of from now on, whatever the profile says; replaces what was said before."""
        row = {"space": space, "definition": dict(definition), "swap_id": swap_id}
        self._write(lambda connection: upsert(connection, tables.space_overrides, [row]))

    def clear_override(self, space: str) -> None:
        """Leave a space to the profile again; one without an override is a no-op."""
        table = tables.space_overrides
        self._write(lambda connection: connection.execute(delete(table).where(table.c.space == space)))

    def overrides(self) -> dict[str, dict[str, Any]]:
        """Space -> what it is made of, for spaces that are not as the profile says."""
        table = tables.space_overrides
        with self._reading() as connection:
            return {row.space: row.definition for row in connection.execute(select(table).order_by(table.c.space))}


def _swap(row: Row[Any]) -> SwapRecord:
    found = row._asdict()
    return SwapRecord(**{**found, "state": SwapState(found["state"])})


def _no_swap(swap_id: str) -> NotFoundError:
    return NotFoundError(f"there is no swap with id {swap_id!r}", hint="see `lodestone models swap --status`")
