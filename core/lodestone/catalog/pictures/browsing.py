"""Pictures by date: pages of those that pass filters, newest first on the clock of the place where each was taken."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, func, or_, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.pictures.dated import DatedPlace, PictureFilter, TimedPicture
from lodestone.catalog.pictures.images import IMAGE_COLUMNS, image_record
from lodestone.catalog.records import ImageRecord, ImageState
from lodestone_schemas.dates import Precision, seconds_of

_IMAGES: Final = tables.images
_AFTER_SLASH: Final = chr(ord("/") + 1)  # paths in the folder "a" lie between "a/" and "a0"


class BrowsingRows(CatalogBase):
    """Part of the catalog that lists pictures by date."""

    def dated_page(
        self, which: PictureFilter, limit: int, *, after: DatedPlace | None = None, states: Collection[ImageState]
    ) -> list[ImageRecord]:
        """Return a page of the pictures that pass a filter: newest first, those without a date last, and by id within a second.

        Args:
            which: The filter.
            limit: Pictures a page.
            after: Place of the last picture of the page before.
            states: States of the pictures to return.
        """
        conditions = [_IMAGES.c.state.in_(states), *_conditions(which)]
        if after is not None:
            conditions.append(_behind(after))
        order = (_local().is_(None), _local().desc(), _IMAGES.c.image_id)
        query = select(*IMAGE_COLUMNS).where(*conditions).order_by(*order).limit(limit)
        with self._reading() as connection:
            return [image_record(row) for row in connection.execute(query)]

    def timed_pictures(self, which: PictureFilter, *, states: Collection[ImageState]) -> list[TimedPicture]:
        """Return the pictures that pass a filter and whose time is known to the second, by absolute time and then by id.

        Args:
            which: The filter.
            states: States of the pictures to return.
        """
        whole = or_(_IMAGES.c.taken_precision.is_(None), _IMAGES.c.taken_precision == Precision.SECOND)
        columns = (_IMAGES.c[name] for name in TimedPicture._fields)
        conditions = (_IMAGES.c.state.in_(states), _IMAGES.c.taken_at.is_not(None), whole, *_conditions(which))
        query = select(*columns).where(*conditions).order_by(_IMAGES.c.taken_at, _IMAGES.c.image_id)
        with self._reading() as connection:
            return list(map(TimedPicture._make, connection.execute(query)))


def _conditions(which: PictureFilter) -> list[ColumnElement[bool]]:
    columns = _IMAGES.c
    conditions: list[ColumnElement[bool]] = [
        column.in_(values)
        for column, values in ((columns.corpus_id, which.corpora), (columns.root_id, which.roots))
        if values is not None
    ]
    if which.without_roots:
        conditions.append(columns.root_id.not_in(which.without_roots))
    if which.folders is not None:
        inside = [and_(columns.uri >= f"{folder}/", columns.uri < folder + _AFTER_SLASH) for folder in which.folders]
        conditions.append(or_(*inside))
    for moment, first, end in ((_local(), which.local_from, which.local_to), (columns.taken_at, which.utc_from, which.utc_to)):
        if first is not None:
            conditions.append(moment >= first)
        if end is not None:
            conditions.append(moment < end)
    if which.period_to is not None:
        conditions.append(_is_over(datetime.fromtimestamp(which.period_to, UTC)))
    return conditions


def _is_over(end: datetime) -> ColumnElement[bool]:
    """Return the condition of dates that are whole or whose period has ended: it began before the period that `end` lies in."""
    day = end.replace(hour=0, minute=0, second=0, microsecond=0)
    begun = {Precision.DAY: day, Precision.MONTH: day.replace(day=1), Precision.YEAR: day.replace(month=1, day=1)}
    precision: ColumnElement[str] = _IMAGES.c.taken_precision
    partial = [and_(precision == part.value, _local() < seconds_of(start)) for part, start in begun.items()]
    return or_(precision.is_(None), precision == Precision.SECOND, *partial)


def _local() -> ColumnElement[int]:
    """Return when a picture was taken, on the clock of its place."""
    return _IMAGES.c.taken_at + 60 * func.coalesce(_IMAGES.c.utc_offset_minutes, 0)


def _behind(place: DatedPlace) -> ColumnElement[bool]:
    """Return the condition of the pictures behind a place, in the order of a page."""
    later_id = _IMAGES.c.image_id > place.image_id
    if place.local is None:
        return and_(_local().is_(None), later_id)
    return or_(_local() < place.local, and_(_local() == place.local, later_id), _local().is_(None))
