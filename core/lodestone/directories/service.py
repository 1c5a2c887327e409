"""Operations on directories: add, change, list and describe; the catalog holds all of them.

A directory is a root of a corpus. Switching one on or off changes what queries may find and nothing else: its pictures stay
embedded and loaded, and the change applies to the next query of any process (query/asking/filters.py).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import ImageState, Root
from lodestone.directories.naming import corpus_names
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.files.urls import bare_of
from lodestone.paging import decode_cursor, encode_cursor
from lodestone.sources.exclusion import parsed
from lodestone_schemas.directories import DirectoryChange, DirectoryInfo, DirectoryPage

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.config.home import Home
    from lodestone.files.beneath import Boundaries

FOLDER: Final = "folder"
OBJECT: Final = "object"


class DirectoryService:
    """Manages the directories of one home.

    Args:
        catalog: The catalog that holds them.
        home: The home, which may not lie in a directory, because its thumbnails are no pictures of the user's.
    """

    def __init__(self, catalog: Catalog, home: Home) -> None:
        self._catalog = catalog
        self._home = home

    def add(self, path: str, *, corpus: str = "default", watch: bool = False, boundaries: Boundaries | None = None) -> Root:
        """Return the directory for a folder, which is created if it is new. Nothing is indexed yet.

        Where the folder is a known directory that was moved, that directory is returned, at its new path.

        Args:
            path: The folder; `~` is allowed. It may be empty.
            corpus: Name of the corpus; it is created if it is new.
            watch: Whether to watch it from now on. False leaves a known directory as it is.
            boundaries: What may be opened to recognise a moved directory; None to open nothing, and recognise none.

        Raises:
            NotFoundError: there is no such folder.
            InvalidRequestError: the path is a file, holds the home, or lies inside another directory of the corpus; or it leads
                to one, or to a folder around one, by symbolic links.
        """
        folder = self.checked(path)
        corpus_record = self._catalog.ensure_corpus(corpus)
        self._refuse_overlap(
            folder, [root for root in self._catalog.roots(corpus_record.corpus_id) if root.kind == FOLDER], corpus
        )
        if boundaries is not None:
            from lodestone.indexing.scan import mounts
            from lodestone.indexing.scan.moved_roots import follow_candidate
            from lodestone.indexing.scan.scan_scopes import Candidate

            disks = mounts.Mounts(self._home.path / mounts.NAME)
            follow_candidate(
                Candidate(folder, is_file=False), self._catalog, corpus_record, boundaries=boundaries, mounts=disks
            )
        root = self._catalog.ensure_root(corpus_record.corpus_id, str(folder))
        return self._catalog.set_root(root.root_id, watched=True) if watch else root

    def change(self, root_id: str, change: DirectoryChange) -> Root:
        """Change a directory; the change applies to the next query.

        Raises:
            NotFoundError: there is no such directory.
            InvalidRequestError: the directory cannot be watched, or a pattern cannot be read.
        """
        root = self._catalog.root(root_id)
        if change.watched and root.kind != FOLDER:
            raise InvalidRequestError(
                f"the directory {root.name!r} ({root.kind}) cannot be watched: only folders tell of changes",
                hint="index it again from time to time: lodestone index",
                directory=root.name,
            )
        if change.exclude is not None:
            if change.exclude and root.kind not in {FOLDER, OBJECT}:
                raise InvalidRequestError(
                    f"nothing can be left out of the directory {root.name!r} ({root.kind}) by patterns",
                    hint="name the archives or tables by a pattern when you index them",
                    directory=root.name,
                )
            if any("\n" in pattern or "\r" in pattern for pattern in change.exclude):
                raise InvalidRequestError("a pattern is one line", hint="send several patterns as a list")
            parsed(change.exclude)
        return self._catalog.set_root(root_id, enabled=change.enabled, watched=change.watched, exclude=change.exclude)

    def describe(self, root_id: str, *, busy: Collection[str] = ()) -> DirectoryInfo:
        """Return one directory with its counts; `busy` names the corpora that are being indexed.

        Raises:
            NotFoundError: there is no such directory.
        """
        root = self._catalog.root(root_id)
        return self._info(root, corpus_names(self._catalog)[root.corpus_id], busy)

    def page(
        self,
        offset: int = 0,
        limit: int = 100,
        *,
        cursor: str | None = None,
        busy: Collection[str] = (),
        corpora: Collection[str] | None = None,
    ) -> DirectoryPage:
        """Return some directories, by corpus and name, from an offset or behind a page's `next_cursor`.

        Args:
            offset: Directories to skip.
            limit: Directories a page.
            cursor: `next_cursor` of the page before; None for the first.
            busy: Names of the corpora that are being indexed.
            corpora: Names of the corpora whose directories are listed; None for all.

        Raises:
            InvalidRequestError: there is no such cursor.
        """
        names = corpus_names(self._catalog)
        found = [root for root in self._catalog.roots(None) if corpora is None or names[root.corpus_id] in corpora]
        places = {root.root_id: (names[root.corpus_id], root.name) for root in found}
        roots = sorted(found, key=lambda root: places[root.root_id])
        if cursor is not None:
            after = decode_cursor("directories", cursor, str, str)
            roots = [root for root in roots if places[root.root_id] > after]
        shown, more = roots[offset : offset + limit], offset + limit < len(roots)
        return DirectoryPage(
            directories=[self._info(root, names[root.corpus_id], busy) for root in shown],
            next_offset=offset + limit if more and cursor is None else None,
            next_cursor=encode_cursor("directories", *places[shown[-1].root_id]) if more and shown else None,
        )

    def _info(self, root: Root, corpus: str, busy: Collection[str]) -> DirectoryInfo:
        counts = self._catalog.count_of_root(root.root_id)
        return DirectoryInfo(
            directory_id=root.root_id,
            name=root.name,
            corpus=corpus,
            kind=root.kind,
            enabled=root.enabled,
            watched=root.watched,
            exclude=list(root.patterns),
            images=counts.get(ImageState.ACTIVE, 0),
            waiting=counts.get(ImageState.PENDING, 0),
            failed=self._catalog.count_failures(root_id=root.root_id),
            indexing=corpus in busy,
            scanned_at=root.scanned_at,
        )

    def _refuse_overlap(self, folder: Path, roots: Sequence[Root], corpus: str) -> None:
        """Raise where a picture would be indexed twice.

        A folder whose own path contains other directories is allowed; these keep their pictures.
        """
        if any(root.path == str(folder) for root in roots):
            return
        real = Path(os.path.realpath(folder))
        for root in roots:
            path = Path(root.path)
            if folder in path.parents:
                continue
            real_path = Path(os.path.realpath(path))
            if path in folder.parents or real_path in real.parents:
                raise InvalidRequestError(
                    f"{str(folder)!r} lies inside the directory {root.name!r} of the corpus {corpus!r}",
                    hint=f"it is indexed with {root.path!r}; use another --corpus to have it apart",
                    directory=root.name,
                )
            if real_path == real or real in real_path.parents:
                what = "is" if real_path == real else "leads to a folder around"
                raise InvalidRequestError(
                    f"{str(folder)!r} {what} the directory {root.name!r} of the corpus {corpus!r} by another path",
                    hint=f"that directory is {root.path!r}; name the folder as {str(real)!r}, or use another --corpus",
                    directory=root.name,
                )

    def checked(self, path: str) -> Path:
        """Return a folder's absolute path, if it may become a directory; raises as `add` does."""
        if not path.strip() or "\0" in path:
            raise InvalidRequestError(f"{path!r} is no path", hint="name a folder; `.` is the current one")
        if (bare := bare_of(path)) is not None:
            raise InvalidRequestError(
                f"the URL of {bare!r} holds credentials", hint="give them by the environment, and use `lodestone index URL`"
            )
        if "://" in path:
            raise InvalidRequestError(
                f"{path!r} is no folder of this machine", hint=f"lodestone index {path}: what is indexed is a directory, too"
            )
        folder = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - not resolve(): a link keeps its name
        try:
            str(folder).encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidRequestError(
                f"the name of the folder {str(folder)!r} is not valid UTF-8",
                hint="add the folder around it: names inside a directory may be anything",
            ) from error
        if folder.is_file():
            raise InvalidRequestError(
                f"{str(folder)!r} is a file", hint="a directory is a folder; single files: lodestone index FILE"
            )
        if not folder.is_dir():
            raise NotFoundError(f"no such folder: {str(folder)!r}", hint="check the path; quote it if it holds spaces")
        home = self._home.path.resolve()
        inside = home.relative_to(folder.resolve()).parts if home.is_relative_to(folder.resolve()) else (".",)
        if not any(part.startswith(".") for part in inside):  # hidden folders are never scanned
            raise InvalidRequestError(
                f"{str(folder)!r} holds the home {str(home)!r}, whose thumbnails are no pictures of yours",
                hint="add the folders beside it, or move the home: LODESTONE_HOME",
            )
        return folder
