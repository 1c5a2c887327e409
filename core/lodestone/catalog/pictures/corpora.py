"""Corpora, roots and the archives in them in the catalog: creation, listing, settings and removal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import PurePath
from uuid import uuid4

from sqlalchemy import Connection, delete, exists, insert, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks, insert_ignoring, upsert
from lodestone.catalog.pictures.removal import AT_ONCE, delete_images
from lodestone.catalog.records import Container, Corpus, Root
from lodestone.catalog.service.api_keys import rename_in_keys
from lodestone.catalog.use.tags import queue_selected
from lodestone.errors import InvalidRequestError, NotFoundError, UnknownNameError

_NAME_CHARS = 200


class CorpusRows(CatalogBase):
    """Part of the catalog that keeps corpora and roots."""

    def ensure_corpus(self, name: str) -> Corpus:
        """Return the corpus of that name, and create it if it is new.

        Raises:
            InvalidRequestError: The name is empty, too long or not printable.
        """
        _check_name(name)
        by_name = select(tables.corpora).where(tables.corpora.c.name == name)

        def change(connection: Connection) -> Corpus:
            values = {"corpus_id": str(uuid4()), "name": name, "created_at": datetime.now(UTC)}
            insert_ignoring(connection, tables.corpora, [values])
            return Corpus(*connection.execute(by_name).one())

        with self._reading() as connection:
            if row := connection.execute(by_name).first():
                return Corpus(*row)
        return self._write(change)

    def corpus(self, name: str) -> Corpus:
        """Return the corpus of that name.

        Raises:
            UnknownNameError: There is no such corpus; the hint lists known ones.
        """
        with self._reading() as connection:
            if row := connection.execute(select(tables.corpora).where(tables.corpora.c.name == name)).first():
                return Corpus(*row)
            known = list(connection.execute(select(tables.corpora.c.name).order_by(tables.corpora.c.name).limit(20)).scalars())
        raise UnknownNameError.among("corpus", name, known)

    def corpora(
        self, offset: int = 0, limit: int = 100, *, after: str | None = None, names: Collection[str] | None = None
    ) -> list[Corpus]:
        """Return a page of corpora by name; optionally only those after the name `after`, and only those among `names`."""
        query = select(tables.corpora).order_by(tables.corpora.c.name).offset(offset).limit(limit)
        if names is not None:
            query = query.where(tables.corpora.c.name.in_(sorted(names)))
        if after is not None:
            query = query.where(tables.corpora.c.name > after)
        with self._reading() as connection:
            return [Corpus(*row) for row in connection.execute(query)]

    def rename_corpus(self, corpus_id: str, name: str) -> tuple[Corpus, list[str]]:
        """Give a corpus another name, also in the keys that name it; return it, and the ids of those keys.

        Keys name corpora by their names. Those that named the corpus see it as before, and none sees more than before.

        Raises:
            InvalidRequestError: The name is empty, too long, not printable, or that of another corpus; or a valid key names
                it already, and would see the corpus then.
            NotFoundError: There is no such corpus.
        """
        _check_name(name)
        corpora = tables.corpora

        def change(connection: Connection) -> tuple[Corpus, list[str]]:
            row = connection.execute(select(corpora).where(corpora.c.corpus_id == corpus_id)).first()
            if row is None:
                raise NotFoundError(f"there is no corpus with id {corpus_id!r}", hint="see `lodestone corpus list`")
            old = Corpus(*row)
            if name == old.name:
                return old, []
            if connection.execute(select(corpora.c.corpus_id).where(corpora.c.name == name)).first() is not None:
                raise InvalidRequestError(f"there is a corpus {name!r} already", hint="see `lodestone corpus list`")
            keys = rename_in_keys(connection, old.name, name)
            connection.execute(update(corpora).where(corpora.c.corpus_id == corpus_id).values(name=name))
            return replace(old, name=name), keys

        return self._write(change)

    def corpus_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of the corpora that exist, by name."""
        ids: dict[str, str] = {}
        with self._reading() as connection:
            for chunk in chunks(sorted(set(names))):
                query = select(tables.corpora.c.name, tables.corpora.c.corpus_id).where(tables.corpora.c.name.in_(chunk))
                ids.update((row.name, row.corpus_id) for row in connection.execute(query.order_by(tables.corpora.c.name)))
        return ids

    def remove_corpus(self, corpus_id: str) -> None:
        """Delete the corpus and everything that belongs to it, in short transactions; run it again if it was interrupted."""
        images = tables.images
        batch = select(images.c.image_id).where(images.c.corpus_id == corpus_id).order_by(images.c.image_id).limit(AT_ONCE)

        def remove_batch(connection: Connection) -> int:
            queue_selected(connection, batch)
            return connection.execute(delete(images).where(images.c.image_id.in_(batch))).rowcount

        while self._write(remove_batch):
            pass
        self._write(
            lambda connection: connection.execute(delete(tables.corpora).where(tables.corpora.c.corpus_id == corpus_id))
        )

    def ensure_root(self, corpus_id: str, path: str, *, kind: str = "folder") -> Root:
        """Return the root for that absolute path or URL, and create it if it is new; a known root keeps its kind.

        Its name is the path's last part; if another path of the corpus has that name already, `-2`, `-3`, … is added. The name
        takes part in image ids and never changes.

        Args:
            corpus_id: The corpus.
            path: Absolute path of a folder or file, or a URL. It is stored, so it must hold no secret.
            kind: `folder`, `object`, `table` or `tar`.

        Raises:
            NotFoundError: There is no such corpus.
        """
        roots = tables.roots
        by_path = select(roots).where(roots.c.corpus_id == corpus_id, roots.c.path == path)

        def change(connection: Connection) -> Root:
            if connection.execute(select(tables.corpora.c.name).where(tables.corpora.c.corpus_id == corpus_id)).first() is None:
                raise NotFoundError(f"there is no corpus with id {corpus_id!r}", hint="see `lodestone corpus list`")
            if row := connection.execute(by_path).first():
                return Root(*row)
            taken = set(connection.execute(select(roots.c.name).where(roots.c.corpus_id == corpus_id)).scalars())
            name = next(candidate for candidate in _candidate_names(_base_name(path)) if candidate not in taken)
            root = Root(root_id=str(uuid4()), corpus_id=corpus_id, name=name, path=path, kind=kind)
            connection.execute(insert(roots), asdict(root))
            return root

        with self._reading() as connection:
            if row := connection.execute(by_path).first():
                return Root(*row)
        return self._write(change)

    def root(self, root_id: str) -> Root:
        """Return one root by its id.

        Raises:
            NotFoundError: There is no such root.
        """
        with self._reading() as connection:
            row = connection.execute(select(tables.roots).where(tables.roots.c.root_id == root_id)).first()
        if row is None:
            raise _no_root(root_id)
        return Root(*row)

    def roots(self, corpus_id: str | None = None) -> list[Root]:
        """Return the roots of one corpus, or of all, by name."""

        def read() -> tuple[Root, ...]:
            query = select(tables.roots).order_by(tables.roots.c.name, tables.roots.c.root_id)
            with self._reading() as connection:
                return tuple(Root(*row) for row in connection.execute(query))

        roots = self._unchanged("roots", read)
        return [root for root in roots if corpus_id is None or root.corpus_id == corpus_id]

    def set_root(
        self,
        root_id: str,
        *,
        enabled: bool | None = None,
        watched: bool | None = None,
        scanned_at: datetime | None = None,
        exclude: Sequence[str] | None = None,
    ) -> Root:
        """Change properties of a root, and return the root as it is now; None leaves a property unchanged.

        Raises:
            NotFoundError: There is no such root.
        """
        table = tables.roots
        lines = None if exclude is None else "\n".join(dict.fromkeys(exclude))
        properties = {"enabled": enabled, "watched": watched, "scanned_at": scanned_at, "exclude": lines}
        changed = {name: value for name, value in properties.items() if value is not None}

        def change(connection: Connection) -> Root:
            if changed:
                connection.execute(update(table).where(table.c.root_id == root_id).values(**changed))
            row = connection.execute(select(table).where(table.c.root_id == root_id)).first()
            if row is None:
                raise _no_root(root_id)
            return Root(*row)

        return self._write(change)

    def relocate_root(self, root_id: str, path: str) -> Root:
        """Give a root another path and return it; its name, its pictures and their uris stay.

        A root that has this path and no pictures goes.

        Raises:
            NotFoundError: There is no such root.
            CatalogError: Another root of the corpus has this path, and pictures.
        """
        table, images = tables.roots, tables.images

        def change(connection: Connection) -> Root:
            row = connection.execute(select(table).where(table.c.root_id == root_id)).first()
            if row is None:
                raise _no_root(root_id)
            is_there = (table.c.corpus_id == row.corpus_id, table.c.path == path, table.c.root_id != root_id)
            has_pictures = exists().where(images.c.root_id == table.c.root_id)
            connection.execute(delete(table).where(*is_there, ~has_pictures))
            connection.execute(update(table).where(table.c.root_id == root_id).values(path=path))
            return Root(*connection.execute(select(table).where(table.c.root_id == root_id)).one())

        return self._write(change)

    def remove_root(self, root_id: str) -> int:
        """Delete a root and its pictures, in short transactions, and return how many it had; repeat it after an interruption.

        Pictures that were ever embedded leave tombstones, so that every collection deletes them when it is next synced, and
        their slices are listed for erasure. An unknown root is a no-op.
        """
        images = tables.images
        batch = select(images.c.image_id).where(images.c.root_id == root_id).order_by(images.c.image_id).limit(AT_ONCE)

        def remove_batch(connection: Connection) -> int:
            ids = list(connection.execute(batch).scalars())
            delete_images(connection, ids)
            return len(ids)

        removed = 0
        while count := self._write(remove_batch):
            removed += count
        self._write(lambda connection: connection.execute(delete(tables.roots).where(tables.roots.c.root_id == root_id)))
        return removed

    def disabled_roots(self) -> tuple[str, ...]:
        """Return the ids of the roots whose pictures must not be found."""

        def read() -> tuple[str, ...]:
            with self._reading() as connection:
                return tuple(connection.execute(_DISABLED).scalars().all())

        return self._unchanged("disabled roots", read)


_DISABLED = select(tables.roots.c.root_id).where(~tables.roots.c.enabled).order_by(tables.roots.c.root_id)


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable() or len(name) > _NAME_CHARS:
        raise InvalidRequestError(
            f"a corpus cannot be called {name[:_NAME_CHARS]!r}", hint=f"use 1 to {_NAME_CHARS} printable characters"
        )


def _base_name(path: str) -> str:
    """Return the last part of a path or URL, or `root` if there is none."""
    if "://" in path:
        path = path.split("://", 1)[1].split("?", 1)[0].split("#", 1)[0]
    path = path.partition("/**/")[0]  # roots of tables and archives end with a pattern
    return PurePath(path).name or "root"


def _no_root(root_id: str) -> NotFoundError:
    return NotFoundError(f"there is no root with id {root_id!r}", hint="its corpus may have been removed")


def _candidate_names(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1


class ContainerRows(CatalogBase):
    """Part of the catalog that keeps archives and tables which hold pictures."""

    def containers(self, root_id: str) -> dict[str, Container]:
        """Return the root's containers by uri."""
        table = tables.containers
        query = select(table).where(table.c.root_id == root_id).order_by(table.c.uri)
        with self._reading() as connection:
            return {row.uri: Container(*row) for row in connection.execute(query)}

    def put_containers(self, containers: Sequence[Container]) -> None:
        """Record containers, replacing what was recorded of them before."""
        if containers:
            self._write(
                lambda connection: upsert(connection, tables.containers, [asdict(container) for container in containers])
            )

    def remove_containers(self, root_id: str, uris: Iterable[str]) -> None:
        """Delete the records of containers; unknown ones are ignored."""
        table, removed = tables.containers, list(uris)
        for chunk in chunks(removed):
            self._write(
                lambda connection, chunk=chunk: connection.execute(  # type: ignore[misc]
                    delete(table).where(table.c.root_id == root_id, table.c.uri.in_(chunk))
                )
            )
