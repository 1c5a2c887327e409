"""Folders and pictures by their names alone, wherever they lie inside the roots."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import ColumnElement, and_, or_, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.pictures.images import IMAGE_COLUMNS, image_record
from lodestone.catalog.records import ImageRecord, ImageState

_IMAGES: Final = tables.images.c
_LIVING: Final = _IMAGES.state != ImageState.GONE
_AFTER_SLASH: Final = chr(ord("/") + 1)
_MOST_COMPARED: Final = 32  # spellings of a name that every picture's place is compared with


class NameRows(CatalogBase):
    """Part of the catalog that finds folders and pictures by their names."""

    def folders_called(self, spellings: Sequence[str], root_ids: Collection[str], *, most: int = 6) -> list[str]:
        """Return the folders inside some roots that a name means, each as its root spells it.

        A folder of this path below a root is the only answer. Otherwise folders of this name (or whose paths end like this)
        are looked for at any depth, and at most `most` different ones are returned, by path.

        Args:
            spellings: The name or path, in every spelling in question.
            root_ids: Roots to look in.
            most: Folders to find before the search ends.
        """
        within = (_LIVING, _IMAGES.root_id.in_(sorted(root_ids)))
        at_the_top = or_(*(_below(folder) for folder in spellings))
        anywhere = or_(*(_IMAGES.uri.contains(f"/{folder}/", autoescape=True) for folder in spellings[:_MOST_COMPARED]))
        found: list[str] = []
        with self._reading() as connection:
            if top := connection.execute(select(_IMAGES.uri).where(*within, at_the_top).limit(1)).scalar():
                return [next(folder for folder in spellings if str(top).startswith(f"{folder}/"))]
            while len(found) < most:  # each look leaves out the folders that were found: one may hold a million pictures
                others = [~_below(folder) for folder in found]
                uri = connection.execute(select(_IMAGES.uri).where(*within, anywhere, *others).limit(1)).scalar()
                folder = None if uri is None else _folder_meant(str(uri), spellings)
                if folder is None:
                    break
                found.append(folder)
        return sorted(found)

    def pictures_called(self, spellings: Sequence[str], *, most: int = 6) -> list[ImageRecord]:
        """Return pictures with a file name (or a path that ends like this), by root and uri: at most `most`."""
        named = [
            or_(_IMAGES.uri == name, _IMAGES.uri.endswith(f"/{name}", autoescape=True)) for name in spellings[:_MOST_COMPARED]
        ]
        query = select(*IMAGE_COLUMNS).where(_LIVING, or_(*named)).order_by(_IMAGES.root_id, _IMAGES.uri).limit(most)
        with self._reading() as connection:
            return [image_record(row) for row in connection.execute(query)]


def _folder_meant(uri: str, spellings: Sequence[str]) -> str | None:
    """Return the outermost folder of a picture that has one of the names, whatever its case (SQLite compares so)."""
    ends = tuple(f"/{name}".lower() for name in spellings)
    parts = uri.split("/")
    folders = ("/".join(parts[:end]) for end in range(1, len(parts)))
    return next((folder for folder in folders if f"/{folder}".lower().endswith(ends)), None)


def _below(folder: str) -> ColumnElement[bool]:
    """Return the condition that a picture lies below a folder, which an index answers."""
    return and_(_IMAGES.uri >= f"{folder}/", _IMAGES.uri < f"{folder}{_AFTER_SLASH}")
