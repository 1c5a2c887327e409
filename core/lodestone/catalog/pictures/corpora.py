"""Which corpora and roots does the catalog know?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import PurePath
from uuid import uuid4

from sqlalchemy import Connection, delete, insert, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks, insert_ignoring
from lodestone.catalog.pictures.deletions import mark_deleted
from lodestone.catalog.records import Corpus, Root
from lodestone.catalog.use.tags import queue_selected, queue_tagged
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

    def corpora(
        self, offset: int = 0, limit: int = 100, *, after: str | None = None, names: Collection[str] | None = None
    ) -> list[Corpus]:
        """A page of corpora by name; of those behind a name, and only of `names`, where they are given."""
        query = select(tables.corpora).order_by(tables.corpora.c.name).offset(offset).limit(limit)
        if names is not None:
            query = query.where(tables.corpora.c.name.in_(sorted(names)))
        if after is not None:
            query = query.where(tables.corpora.c.name > after)
        with self._reading() as connection:
            return [Corpus(*row) for row in connection.execute(query)]

    def corpus_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Name -> id of those that there are, by name."""
        found: dict[str, str] = {}
        with self._reading() as connection:
            for chunk in chunks(sorted(set(names))):
                query = select(tables.corpora.c.name, tables.corpora.c.corpus_id).where(tables.corpora.c.name.in_(chunk))
                found.update((row.name, row.corpus_id) for row in connection.execute(query.order_by(tables.corpora.c.name)))
        return found

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

    def ensure_root(self, corpus_id: str, path: str, *, kind: str = "folder") -> Root:
        """The root for that absolute path or URL, made if it is new; one that is known keeps its kind.

        Its name is the path's last part; when another path of the corpus has that name already, `-2`, `-3`, … is added. The
        name takes part in image ids and never changes.

        Args:
            corpus_id: The corpus.
            path: Absolute path of a folder or file, or a URL. It is kept, so it must hold no secret.
            kind: `folder`, `object`, `table` or `tar`.

        Raises:
            NotFoundError: there is no such corpus.
        """
        roots = tables.roots
        by_path = select(roots).where(roots.c.corpus_id == corpus_id, roots.c.path == path)

        def change(connection: Connection) -> Root:
            if connection.execute(select(tables.corpora.c.name).where(tables.corpora.c.corpus_id == corpus_id)).first() is None:
                raise NotFoundError(f"there is no corpus with id {corpus_id!r}", hint="see `lodestone corpus list`")
            if found := connection.execute(by_path).first():
                return Root(*found)
            taken = set(connection.execute(select(roots.c.name).where(roots.c.corpus_id == corpus_id)).scalars())
            name = next(candidate for candidate in _names(_base_name(path)) if candidate not in taken)
            root = Root(root_id=str(uuid4()), corpus_id=corpus_id, name=name, path=path, kind=kind)
            connection.execute(insert(roots), asdict(root))
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
            raise _no_root(root_id)
        return Root(*found)

    def roots(self, corpus_id: str | None = None) -> list[Root]:
        """Roots of one corpus, or of all, by name."""
        query = select(tables.roots).order_by(tables.roots.c.name, tables.roots.c.root_id)
        if corpus_id is not None:
            query = query.where(tables.roots.c.corpus_id == corpus_id)
        with self._reading() as connection:
            return [Root(*row) for row in connection.execute(query)]

    def set_root(
        self, root_id: str, *, enabled: bool | None = None, watched: bool | None = None, scanned_at: datetime | None = None
    ) -> Root:
        """Change what is said of a root; what is None stays. Returns the root as it is now.

        Raises:
            NotFoundError: there is no such root.
        """
        table = tables.roots
        given = {"enabled": enabled, "watched": watched, "scanned_at": scanned_at}
        changed = {name: value for name, value in given.items() if value is not None}

        def change(connection: Connection) -> Root:
            if changed:
                connection.execute(update(table).where(table.c.root_id == root_id).values(**changed))
            found = connection.execute(select(table).where(table.c.root_id == root_id)).first()
            if found is None:
                raise _no_root(root_id)
            return Root(*found)

        return self._write(change)

    def remove_root(self, root_id: str) -> int:
        """Forget a root and its pictures, in short transactions; run it again if it was interrupted. Returns how many it had.

        Pictures that were ever embedded leave tombstones, so that every collection deletes them when it is next synced. An
        unknown root is a no-op.
        """
        images = tables.images
        some = select(images.c.image_id).where(images.c.root_id == root_id).order_by(images.c.image_id).limit(_REMOVED_AT_ONCE)

        def some_images(connection: Connection) -> int:
            ids = list(connection.execute(some).scalars())
            mark_deleted(connection, ids)
            queue_tagged(connection, ids)
            for chunk in chunks(ids):
                connection.execute(delete(images).where(images.c.image_id.in_(chunk)))
            return len(ids)

        removed = 0
        while count := self._write(some_images):
            removed += count
        self._write(lambda connection: connection.execute(delete(tables.roots).where(tables.roots.c.root_id == root_id)))
        return removed

    def disabled_roots(self) -> tuple[str, ...]:
        """Ids of the roots whose pictures must not be found."""
        query = select(tables.roots.c.root_id).where(~tables.roots.c.enabled).order_by(tables.roots.c.root_id)
        with self._reading() as connection:
            return tuple(connection.execute(query).scalars())


def _base_name(path: str) -> str:
    """The last part of a path or URL; `root` where there is none."""
    if "://" in path:
        path = path.split("://", 1)[1].split("?", 1)[0].split("#", 1)[0]
    path = path.partition("/**/")[0]  # roots of tables and archives end with a pattern
    return PurePath(path).name or "root"


def _no_root(root_id: str) -> NotFoundError:
    return NotFoundError(f"there is no root with id {root_id!r}", hint="its corpus may have been removed")


def _names(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1
