"""Which corpora and roots does the catalog know?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePath
from uuid import uuid4

from sqlalchemy import Connection, delete, insert, select

from lodestone.catalog import tables
from lodestone.catalog.engine import CatalogBase
from lodestone.catalog.records import Corpus, Root
from lodestone.catalog.sql import insert_ignoring
from lodestone.catalog.tags import queue_selected
from lodestone.errors import InvalidRequestError, NotFoundError, UnknownNameError

_NAME_CHARS = 200
_REMOVED_AT_ONCE = 10_000  # images a transaction, so that other writers get their turn


class CorpusRows(CatalogBase):
    """Corpora and roots."""

    def ensure_corpus(self, name: str) -> Corpus:
        """The corpus of that name, made if it is new.

        Raises:
            InvalidRequestError: nobody could type or read such a name.
        """
        if not name.strip() or not name.isprintable() or len(name) > _NAME_CHARS:
            raise InvalidRequestError(
                f"a corpus cannot be called {name[:_NAME_CHARS]!r}", hint=f"use 1 to {_NAME_CHARS} printable characters"
            )
        by_name = select(tables.corpora).where(tables.corpora.c.name == name)

        def change(connection: Connection) -> Corpus:
            row = {"corpus_id": str(uuid4()), "name": name, "created_at": datetime.now(UTC)}
            insert_ignoring(connection, tables.corpora, [row])
            return Corpus(*connection.execute(by_name).one())

        with self._reading() as connection:
            if found := connection.execute(by_name).first():
                return Corpus(*found)
        return self._write(change)

    def corpus(self, name: str) -> Corpus:
        """The corpus of that name; `UnknownNameError` lists the known ones when there is none."""
        with self._reading() as connection:
            if found := connection.execute(select(tables.corpora).where(tables.corpora.c.name == name)).first():
                return Corpus(*found)
            known = list(connection.execute(select(tables.corpora.c.name).order_by(tables.corpora.c.name).limit(20)).scalars())
        raise UnknownNameError.among("corpus", name, known)

    def corpora(self, offset: int = 0, limit: int = 100) -> list[Corpus]:
        """A page of corpora by name."""
        query = select(tables.corpora).order_by(tables.corpora.c.name).offset(offset).limit(limit)
        with self._reading() as connection:
            return [Corpus(*row) for row in connection.execute(query)]

    def remove_corpus(self, corpus_id: str) -> None:
        """Forget the corpus and all that hangs on it, in short transactions; run it again if it was interrupted."""
        images = tables.images
        some = (
            select(images.c.image_id).where(images.c.corpus_id == corpus_id).order_by(images.c.image_id).limit(_REMOVED_AT_ONCE)
        )

        def some_images(connection: Connection) -> int:
            queue_selected(connection, select(tables.tags.c.image_id).where(tables.tags.c.image_id.in_(some)))
            return connection.execute(delete(images).where(images.c.image_id.in_(some))).rowcount

        while self._write(some_images):
            pass
        self._write(
            lambda connection: connection.execute(delete(tables.corpora).where(tables.corpora.c.corpus_id == corpus_id))
        )

    def ensure_root(self, corpus_id: str, path: str) -> Root:
        """The root for that absolute path, made if it is new.

        Its name is the folder's base name; when another path of the corpus has that name already, `-2`, `-3`, … is added. The
        name takes part in image ids and never changes.

        Raises:
            NotFoundError: there is no such corpus.
        """
        roots = tables.roots
        by_path = select(roots).where(roots.c.corpus_id == corpus_id, roots.c.path == path)

        def change(connection: Connection) -> Root:
            corpus = select(tables.corpora.c.name).where(tables.corpora.c.corpus_id == corpus_id).with_for_update()
            if connection.execute(corpus).first() is None:  # (the row lock keeps two from choosing the same name)
                raise NotFoundError(f"there is no corpus with id {corpus_id!r}", hint="see `lodestone corpus list`")
            if found := connection.execute(by_path).first():
                return Root(*found)
            taken = set(connection.execute(select(roots.c.name).where(roots.c.corpus_id == corpus_id)).scalars())
            name = next(candidate for candidate in _names(PurePath(path).name or "root") if candidate not in taken)
            root = Root(root_id=str(uuid4()), corpus_id=corpus_id, name=name, path=path)
            row = {"root_id": root.root_id, "corpus_id": corpus_id, "name": name, "path": path}
            connection.execute(insert(roots), row)
            return root

        with self._reading() as connection:
            if found := connection.execute(by_path).first():
                return Root(*found)
        return self._write(change)

    def root(self, root_id: str) -> Root:
        """One root by its id; `NotFoundError` when there is none."""
        with self._reading() as connection:
            found = connection.execute(select(tables.roots).where(tables.roots.c.root_id == root_id)).first()
        if found is None:
            raise NotFoundError(f"there is no root with id {root_id!r}", hint="its corpus may have been removed")
        return Root(*found)

    def roots(self, corpus_id: str | None = None) -> list[Root]:
        """Roots of one corpus, or of all, by name."""
        query = select(tables.roots).order_by(tables.roots.c.name, tables.roots.c.root_id)
        if corpus_id is not None:
            query = query.where(tables.roots.c.corpus_id == corpus_id)
        with self._reading() as connection:
            return [Root(*row) for row in connection.execute(query)]


def _names(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1
