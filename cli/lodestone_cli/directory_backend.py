"""Directories of this home or of a remote service, with one interface and one form of output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from lodestone.errors import InvalidRequestError, UnknownNameError

if TYPE_CHECKING:
    from lodestone.catalog.records import Root
    from lodestone.directories.service import DirectoryService
    from lodestone_cli.command_context import CommandContext
    from lodestone_client import Lodestone
    from lodestone_schemas.directories import DirectoryInfo

_EVERY: Final = 1_000_000


class DirectoryBackend(Protocol):
    """Operations on directories. Each is a dict with the fields of `DirectoryInfo`, and its `path` where that is known."""

        """Return all directories that are known."""

    def find(self, named: str, corpus: str | None) -> dict[str, Any]:
        """Return the directory with this name.

        Raises:
            UnknownNameError: there is none.
            InvalidRequestError: there are several.
        """

    def runs(self, directory: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the last three runs of its corpus."""

    def add(self, path: str, *, corpus: str, watch: bool, index: bool) -> dict[str, Any]:
        """Add a folder, and return it with the `job` and the `counts` of its indexing."""

    def change(self, directory: dict[str, Any], **change: bool) -> dict[str, Any]:
        """Switch searching or watching, and return the directory after it."""

    def index(self, directory: dict[str, Any]) -> dict[str, Any]:
        """Index it again, and return it with the `job` and the `counts`."""

    def remove(self, directory: dict[str, Any]) -> None:
        """Remove it from catalog, embeddings, store and thumbnails."""


def directories_of(context: CommandContext) -> DirectoryBackend:
    """Return the directories that the command works on: of a remote service, or of this home."""
    return HomeDirectories(context) if context.remote is None else RemoteDirectories(context.remote)


class HomeDirectories:
    """Directories of a home on this machine."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def every(self) -> list[dict[str, Any]]:
        """Return all directories; an empty list where there is no home yet."""
        from lodestone.config.home import home_of

        if not home_of(self._context.loaded.settings).exists():
            return []
        return [self._with_path(info) for info in self._book().page(0, _EVERY, busy=self._busy()).directories]

    def find(self, named: str, corpus: str | None) -> dict[str, Any]:
        """Return the directory with this path, name, corpus/name or id."""
        from lodestone.directories.naming import find_directory

        return self._described(find_directory(self._context.runtime.catalog, named, corpus=corpus))

    def runs(self, directory: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the last three runs of its corpus from the catalog."""
        catalog = self._context.runtime.catalog
        return [
            {"run_id": run.run_id, "kind": run.kind, "state": run.state.value, "started_at": run.started_at, "error": run.error}
            for run in catalog.runs(3, corpus_id=catalog.root(directory["directory_id"]).corpus_id)
        ]

    def add(self, path: str, *, corpus: str, watch: bool, index: bool) -> dict[str, Any]:
        """Add a folder, and index it in the running service or in this process."""
        root = self._book().add(path, corpus=corpus, watch=watch)
        return self._indexed(root, corpus) if index else self._described(root) | {"job": None, "counts": {}}

    def change(self, directory: dict[str, Any], **change: bool) -> dict[str, Any]:
        """Switch searching or watching in the catalog."""
        from lodestone_schemas.directories import DirectoryChange

        return self._described(self._book().change(directory["directory_id"], DirectoryChange(**change)))

    def index(self, directory: dict[str, Any]) -> dict[str, Any]:
        """Index it again, in the running service or in this process."""
        return self._indexed(self._context.runtime.catalog.root(directory["directory_id"]), directory["corpus"])

    def remove(self, directory: dict[str, Any]) -> None:
        """Remove it, in the running service or in this process."""
        client = self._context.service()
        if client:
            client.remove_directory(directory["directory_id"])
            return
        from lodestone.directories.remove import remove_directory
        from lodestone.indexing.sync.collections import sync

        remove_directory(self._context.runtime, directory["directory_id"])
        sync(self._context.runtime)

    def _indexed(self, root: Root, corpus: str) -> dict[str, Any]:
        from lodestone_cli.background import index_now

        job, counts = index_now(self._context, root, corpus)
        return self._described(root) | {"job": None if job is None else job.model_dump(mode="json"), "counts": counts}

    def _book(self) -> DirectoryService:
        from lodestone.directories.service import DirectoryService

        return DirectoryService(self._context.runtime.catalog, self._context.runtime.home)

    def _described(self, root: Root) -> dict[str, Any]:
        return self._with_path(self._book().describe(root.root_id, busy=self._busy()))

    def _with_path(self, info: DirectoryInfo) -> dict[str, Any]:
        return info.model_dump(mode="json") | {"path": self._context.runtime.catalog.root(info.directory_id).path}

    def _busy(self) -> set[str]:
        """Return the corpora with a running run whose heartbeat is at most two minutes old."""
        from datetime import UTC, datetime, timedelta

        from lodestone.catalog.records import RunState
        from lodestone.directories.naming import corpus_names

        catalog = self._context.runtime.catalog
        names = corpus_names(catalog)
        since = datetime.now(UTC) - timedelta(minutes=2)
        running = [run for run in catalog.runs(100, state=RunState.RUNNING) if (run.heartbeat_at or run.started_at) > since]
        return {names[run.corpus_id] for run in running if run.corpus_id in names}


class RemoteDirectories:
    """Directories of a remote service, which never reveals the paths of its folders."""

    def __init__(self, remote: Lodestone) -> None:
        self._remote = remote

    def every(self) -> list[dict[str, Any]]:
        """Return all directories, read page by page."""
        return [info.model_dump(mode="json") for info in self._remote.iter_directories()]

    def find(self, named: str, corpus: str | None) -> dict[str, Any]:
        """Return the directory with this name, corpus/name or id."""
        every = [one for one in self.every() if corpus is None or one["corpus"] == corpus]
        for fits in (
            [one for one in every if named == one["directory_id"]],
            [one for one in every if named == one["name"]],
            [one for one in every if named == f"{one['corpus']}/{one['name']}"],
        ):
            if len(fits) == 1:
                return fits[0]
            if fits:
                corpora = sorted(one["corpus"] for one in fits)
                raise InvalidRequestError(
                    f"several directories are called {named!r}, in the corpora {', '.join(corpora)}",
                    hint=f"add --corpus, or say {corpora[0]}/{fits[0]['name']}",
                )
        raise UnknownNameError.among("directory", named, [f"{one['corpus']}/{one['name']}" for one in every])

    def runs(self, directory: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the last three runs of its corpus from the service."""
        return [
            {"run_id": run.run_id, "kind": run.kind, "state": run.state, "started_at": run.started_at, "error": run.error}
            for run in self._remote.runs(limit=3, corpus=directory["corpus"]).runs
        ]

    def add(self, path: str, *, corpus: str, watch: bool, index: bool) -> dict[str, Any]:
        """Add a folder of the service's machine, which is indexed there in the background."""
        from lodestone_cli.naming import checked
        from lodestone_schemas.directories import DirectoryRequest

        request = checked(lambda: DirectoryRequest(path=path, corpus=corpus, watch=watch, index=index))
        added = self._remote.add_directory(request)
        job = None if added.job is None else added.job.model_dump(mode="json")
        return added.directory.model_dump(mode="json") | {"job": job, "counts": {}}

    def change(self, directory: dict[str, Any], **change: bool) -> dict[str, Any]:
        """Switch searching or watching in the service."""
        from lodestone_schemas.directories import DirectoryChange

        return self._remote.change_directory(directory["directory_id"], DirectoryChange(**change)).model_dump(mode="json")

    def index(self, directory: dict[str, Any]) -> dict[str, Any]:
        """Index it in the service, in the background."""
        job = self._remote.index_directory(directory["directory_id"])
        after = self._remote.directory(directory["directory_id"]).model_dump(mode="json")
        return after | {"job": job.model_dump(mode="json"), "counts": {}}

    def remove(self, directory: dict[str, Any]) -> None:
        """Remove it from the service."""
        self._remote.remove_directory(directory["directory_id"])
