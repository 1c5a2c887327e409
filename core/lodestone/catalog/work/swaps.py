"""Model swaps, and the definitions of spaces that they changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection, Row, delete, insert, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import upsert
from lodestone.catalog.records import SwapRecord, SwapState
from lodestone.errors import InvalidRequestError, NotFoundError

_OPEN = (SwapState.BACKFILL, SwapState.SHADOW)


class SwapRows(CatalogBase):
    """Part of the catalog that keeps model swaps and the space definitions that override the profile's."""

    def add_swap(self, space: str, target: str, *, old_collection: str, new_collection: str) -> SwapRecord:
        """Record a new swap, in the state BACKFILL.

        Raises:
            InvalidRequestError: Another swap of the space is still in progress.
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
        open_swaps = select(table.c.swap_id).where(table.c.space == space, table.c.state.in_(_OPEN))

        def change(connection: Connection) -> SwapRecord:
            other = connection.execute(open_swaps).scalar()
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
        """Record a swap's progress, and return the swap as it is now; None leaves a value unchanged.

        Raises:
            NotFoundError: There is no such swap.
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
        """Return one swap by its id.

        Raises:
            NotFoundError: There is no such swap.
        """
        with self._reading() as connection:
            row = connection.execute(select(tables.model_swaps).where(tables.model_swaps.c.swap_id == swap_id)).first()
        if row is None:
            raise _no_swap(swap_id)
        return _swap(row)

    def swaps(self, limit: int = 20, *, space: str | None = None) -> list[SwapRecord]:
        """Return the latest swaps of one space (or of all), newest first."""
        table = tables.model_swaps
        query = select(table).order_by(table.c.created_at.desc(), table.c.swap_id).limit(limit)
        if space is not None:
            query = query.where(table.c.space == space)
        with self._reading() as connection:
            return [_swap(row) for row in connection.execute(query)]

    def set_override(self, space: str, definition: Mapping[str, Any], swap_id: str) -> None:
        """Define a space from now on, whatever the profile says; replaces an earlier definition."""
        row = {"space": space, "definition": dict(definition), "swap_id": swap_id}
        self._write(lambda connection: upsert(connection, tables.space_overrides, [row]))

    def clear_override(self, space: str) -> None:
        """Make a space follow the profile again; one without an override is a no-op."""
        table = tables.space_overrides
        self._write(lambda connection: connection.execute(delete(table).where(table.c.space == space)))

    def overrides(self) -> dict[str, dict[str, Any]]:
        """Return the definitions of spaces that differ from the profile, by space."""
        table = tables.space_overrides
        with self._reading() as connection:
            return {row.space: row.definition for row in connection.execute(select(table).order_by(table.c.space))}


def _swap(row: Row[Any]) -> SwapRecord:
    values = row._asdict()
    return SwapRecord(**{**values, "state": SwapState(values["state"])})


def _no_swap(swap_id: str) -> NotFoundError:
    return NotFoundError(f"there is no swap with id {swap_id!r}", hint="see `lodestone models swap --status`")


UNSETTLED: Final = frozenset({SwapState.BACKFILL, SwapState.SHADOW, SwapState.PROMOTED})
_MOST: Final = 1000  # highest number of swaps that are read, newest first


def unsettled_swaps(catalog: SwapRows, space: str | None = None) -> list[SwapRecord]:
    """Return the swaps that hold two collections, newest first."""
    return [swap for swap in catalog.swaps(_MOST, space=space) if swap.state in UNSETTLED]


def retained_collections(catalog: SwapRows) -> set[str]:
    """Return the collections of unsettled swaps; they are kept, searched or not."""
    return {name for swap in unsettled_swaps(catalog) for name in (swap.old_collection, swap.new_collection)}
