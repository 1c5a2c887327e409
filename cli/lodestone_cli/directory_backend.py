"""Where are the directories that a command names? In this machine's home, or in a service elsewhere: told the same way."""

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


class Shelf(Protocol):
    """Directories, each told as its messages say, with its `path` where that is known."""

    def every(self) -> list[dict[str, Any]]:
        """All of them."""

    def find(self, named: str, corpus: str | None) -> dict[str, Any]:
        """The one that is called so; UnknownNameError, or InvalidRequestError for several."""

    def runs(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        """The last runs of its corpus."""

    def add(self, path: str, *, corpus: str, watch: bool, index: bool) -> dict[str, Any]:
        """Add a folder; with the `job` and the `counts` of its indexing."""

    def change(self, told: dict[str, Any], **change: bool) -> dict[str, Any]:
        """Switch it."""

    def index(self, told: dict[str, Any]) -> dict[str, Any]:
        """Bring it up to date; with the `job` and the `counts`."""

    def remove(self, told: dict[str, Any]) -> None:
        """Forget it."""


def shelf_of(session: CommandContext) -> Shelf:
    """The directories that the session works on."""
    return HomeShelf(session) if session.remote is None else RemoteShelf(session.remote)


class HomeShelf:
    """Those of a home on this machine."""

    def __init__(self, session: CommandContext) -> None:
        self._session = session

    def every(self) -> list[dict[str, Any]]:
        """None where there is no home yet."""
        from lodestone.config.home import home_of

        if not home_of(self._session.loaded.settings).exists():
            return []
        return [self._with_path(info) for info in self._book().page(0, _EVERY, busy=self._busy()).directories]

    def find(self, named: str, corpus: str | None) -> dict[str, Any]:
        """By path, name, corpus/name or id."""
        from lodestone.directories.naming import find_directory

        return self._told(find_directory(self._session.runtime.catalog, named, corpus=corpus))

    def runs(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        """From the catalog."""
        catalog = self._session.runtime.catalog
        return [
            {"run_id": run.run_id, "kind": run.kind, "state": run.state.value, "started_at": run.started_at, "error": run.error}
            for run in catalog.runs(3, corpus_id=catalog.root(told["directory_id"]).corpus_id)
        ]

    def add(self, path: str, *, corpus: str, watch: bool, index: bool) -> dict[str, Any]:
        """Indexed by the running service, or here."""
        root = self._book().add(path, corpus=corpus, watch=watch)
        return self._indexed(root, corpus) if index else self._told(root) | {"job": None, "counts": {}}

    def change(self, told: dict[str, Any], **change: bool) -> dict[str, Any]:
        """In the catalog."""
        from lodestone_schemas.directories import DirectoryChange

        return self._told(self._book().change(told["directory_id"], DirectoryChange(**change)))

    def index(self, told: dict[str, Any]) -> dict[str, Any]:
        """By the running service, or here."""
        return self._indexed(self._session.runtime.catalog.root(told["directory_id"]), told["corpus"])

    def remove(self, told: dict[str, Any]) -> None:
        """By the running service, or here."""
        client = self._session.service()
        if client:
            client.remove_directory(told["directory_id"])
            return
        from lodestone.directories.remove import remove_directory
        from lodestone.indexing.sync.collections import sync

        remove_directory(self._session.runtime, told["directory_id"])
        sync(self._session.runtime)

    def _indexed(self, root: Root, corpus: str) -> dict[str, Any]:
        from lodestone_cli.background import index_now

        job, counts = index_now(self._session, root, corpus)
        return self._told(root) | {"job": None if job is None else job.model_dump(mode="json"), "counts": counts}

    def _book(self) -> DirectoryService:
        from lodestone.directories.service import DirectoryService

        return DirectoryService(self._session.runtime.catalog, self._session.runtime.home)

    def _told(self, root: Root) -> dict[str, Any]:
        return self._with_path(self._book().describe(root.root_id, busy=self._busy()))

    def _with_path(self, info: DirectoryInfo) -> dict[str, Any]:
        return info.model_dump(mode="json") | {"path": self._session.runtime.catalog.root(info.directory_id).path}

    def _busy(self) -> set[str]:
        """Corpora with a run that is going on, here or elsewhere: one that has shown signs of life of late."""
        from datetime import UTC, datetime, timedelta

        from lodestone.catalog.records import RunState
        from lodestone.directories.naming import corpus_names

        catalog = self._session.runtime.catalog
        names = corpus_names(catalog)
        since = datetime.now(UTC) - timedelta(minutes=2)
        running = [run for run in catalog.runs(100, state=RunState.RUNNING) if (run.heartbeat_at or run.started_at) > since]
        return {names[run.corpus_id] for run in running if run.corpus_id in names}


class RemoteShelf:
    """Those of a service elsewhere, which never says where its folders are."""

    def __init__(self, remote: Lodestone) -> None:
        self._remote = remote

    def every(self) -> list[dict[str, Any]]:
        """Page by page."""
        return [info.model_dump(mode="json") for info in self._remote.iter_directories()]

    def find(self, named: str, corpus: str | None) -> dict[str, Any]:
        """By name, corpus/name or id."""
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

    def runs(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        """As the service tells them."""
        return [
            {"run_id": run.run_id, "kind": run.kind, "state": run.state, "started_at": run.started_at, "error": run.error}
            for run in self._remote.runs(limit=3, corpus=told["corpus"]).runs
        ]

    def add(self, path: str, *, corpus: str, watch: bool, index: bool) -> dict[str, Any]:
        """A folder of the service's machine, indexed there in the background."""
        from lodestone_cli.naming import checked
        from lodestone_schemas.directories import DirectoryRequest

        request = checked(lambda: DirectoryRequest(path=path, corpus=corpus, watch=watch, index=index))
        added = self._remote.add_directory(request)
        job = None if added.job is None else added.job.model_dump(mode="json")
        return added.directory.model_dump(mode="json") | {"job": job, "counts": {}}

    def change(self, told: dict[str, Any], **change: bool) -> dict[str, Any]:
        """Over there."""
        from lodestone_schemas.directories import DirectoryChange

        return self._remote.change_directory(told["directory_id"], DirectoryChange(**change)).model_dump(mode="json")

    def index(self, told: dict[str, Any]) -> dict[str, Any]:
        """In the background."""
        job = self._remote.index_directory(told["directory_id"])
        after = self._remote.directory(told["directory_id"]).model_dump(mode="json")
        return after | {"job": job.model_dump(mode="json"), "counts": {}}

    def remove(self, told: dict[str, Any]) -> None:
        """Over there."""
        self._remote.remove_directory(told["directory_id"])
