"""Resources of an opened home: catalog, vector store, embeddings and thumbnails, each opened at first use."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from lodestone.errors import CatalogError, CatalogLostError, ConfigurationError, OutOfSpaceError, StoreLockedError

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.config.home import Home
    from lodestone.config.settings import Settings
    from lodestone.files.area import FileArea
    from lodestone.imaging.thumbnails import ThumbnailStore
    from lodestone.store.base import VectorStore
    from lodestone.store.factory import StoreServer

_log = logging.getLogger(__name__)

SERVICE_PURPOSE: Final = "lodestone serve"
"""Purpose of the process that owns an embedded store as the running service."""


def refuse_beside_service(home: Home, *, hint: str) -> None:
    """Raise `StoreLockedError` at once if a service runs on this home: it keeps the embedded store until it ends.

    Args:
        home: The home.
        hint: What to do instead.
    """
    from lodestone.home.running_service.address import find_service

    address = find_service(home)
    if address is not None:
        raise StoreLockedError(
            f"the service at {address.url} (process {address.pid}) owns the vector store of {str(home.path)!r}",
            hint=hint,
            root=str(home.store),
            pid=address.pid,
            command=SERVICE_PURPOSE,
        )


class HomeResources:
    """Catalog and files of one home.

    Args:
        settings: The user's settings.
        home: The home's folders.
        purpose: What this process does; shown to others who find the store locked.
    """

    def __init__(self, settings: Settings, home: Home, *, purpose: str) -> None:
        self.settings = settings
        self.home = home
        self.purpose = purpose
        # Whether a home that cannot be written (a full or read-only disk) is opened for reading. Not in a service, which would
        # stay on a copy of the store after the disk has room again. Set before the first use.
        self.may_only_read = True
        self.lent_store: VectorStore | None = None  # of the process that owns the home's; set before the first use of `store`
        self._goes_on = False

    def go_on_with_restore(self) -> None:
        """Let this process open the home although a restore of it has not ended, because it goes on with that."""
        self._goes_on = True

    @cached_property
    def embeddings(self) -> FileArea:
        """Return the area of the Parquet slices: the home's folder, or the one that `index.embeddings` names."""
        from lodestone.files.opening import open_area

        return open_area(self.settings.index.embeddings or self.home.embeddings)

    @cached_property
    def thumbnails(self) -> ThumbnailStore:
        """Return the store of the thumbnails: the home's folder, or the one that `index.thumbnails` names."""
        from lodestone.files.opening import open_area
        from lodestone.imaging.thumbnails import ThumbnailStore

        index = self.settings.index
        area = open_area(index.thumbnails or self.home.thumbnails)
        return ThumbnailStore(area, size=index.thumbnail_px, locate=self._slices_of_content)

    def _slices_of_content(self, content_hash: str) -> list[tuple[str, str]]:
        return self.catalog.slices_of_content(content_hash)  # which is opened only then

    @cached_property
    def catalog(self) -> Catalog:
        """Return the catalog, migrated to this version; opening it creates the home.

        Raises:
            CatalogLostError: the home's catalog is missing or empty, and its embeddings are there.
            HomeUnfinishedError: a restore or rebuild of the home has not ended, and this is another command.
        """
        from lodestone.catalog.catalog import Catalog
        from lodestone.config.unfinished import refuse_unfinished

        if not self._goes_on:
            refuse_unfinished(self.home.path, purpose=self.purpose)
        self.home.prepare()
        catalog = Catalog.open(
            self.settings.catalog_url or self.home.catalog,
            before_creating=self._refuse_to_replace,
            may_only_read=self.may_only_read,
            connections=self.settings.catalog_connections,
        )
        try:
            self._agree_on_id(catalog)
            self._forget_queries(catalog)
        except BaseException:
            catalog.close()
            raise
        return catalog

    def _refuse_to_replace(self) -> None:
        """Raise an error where an empty catalog would take the place of a lost one.

        A home gets its id together with its catalog, so a home with an id had one.
        """
        if not self.home.has_id() or not self.embeddings.names("")[0]:
            return
        location = self.settings.catalog_url or str(self.home.catalog)
        raise CatalogLostError(
            f"the catalog {location!r} is missing or empty, but the home {str(self.home.path)!r} holds embeddings",
            hint="put the file back; or restore the last backup into a new home (`LODESTONE_HOME=NEW lodestone backup restore "
            "BACKUP`); or, without a backup, `lodestone catalog rebuild` makes a catalog of pictures and captions from the "
            "Parquet files. Nothing was changed",
            home=str(self.home.path),
        )

    def _forget_queries(self, catalog: Catalog) -> None:
        """Delete the queries that were recorded before the home's history was set to 0: nobody may have to ask first."""
        if self.settings.query.history > 0 or not catalog.queries(limit=1):
            return
        try:
            _log.warning("deleted %d recorded queries: query.history is 0", catalog.forget_queries())
        except (CatalogError, OutOfSpaceError) as error:  # a home that cannot be written can still be read
            _log.warning("recorded queries are still there, although query.history is 0: %s", error.message)

    def _agree_on_id(self, catalog: Catalog) -> None:
        """Settle the home's id between folder and catalog.

        A catalog on a server decides, because folders on several machines share it. One in a file has the id too, so that a
        home whose `home.json` was lost does not get another one.

        Raises:
            ConfigurationError: the two belong to different homes, or neither has the id of a home that holds pictures.
        """
        own = self.home.id if self.home.has_id() else None
        offered = own or self.home.new_id()
        try:
            agreed = catalog.home_id(otherwise=offered, only_if_new=own is None)
        except (CatalogError, OutOfSpaceError):
            if catalog.path is None or own is None:
                raise
            agreed = own  # an older Lodestone filled the file, and now it cannot be written
        folder = str(self.home.path)
        if agreed is None and catalog.path is not None:
            raise ConfigurationError(
                f"neither {str(self.home.marker)!r} nor the catalog has the id of the home {folder!r}, which holds pictures",
                hint="`lodestone catalog repair-home BACKUP` takes it from a backup, and `lodestone catalog repair-home` makes "
                "a new one where nothing outside of the folder is named by it; nothing was changed",
            )
        if agreed is None:  # an older Lodestone filled it: a new id would hide its collections
            raise ConfigurationError(
                f"the catalog {catalog.url!r} holds pictures, and not yet the id of its home; nor does the folder {folder!r}",
                hint="run `lodestone status` once with LODESTONE_HOME on the folder that it was used with so far: the catalog "
                f'takes that one\'s id; if the folder is lost, write `"id": "…"` into {str(self.home.marker)!r}: the beginning '
                "of its collections' names on the Qdrant server, up to the dot (any letters and digits if there is none)",
            )
        settled = self.home.settle(agreed)
        if catalog.path is not None and settled != agreed:
            raise ConfigurationError(
                f"{str(self.home.marker)!r} has the id {settled!r}, and the catalog in the same folder {agreed!r}",
                hint="`lodestone catalog repair-home` writes the catalog's id into the file. A copy of a home that shall be "
                "a home of its own gets an id with `lodestone catalog repair-home --new-id`. Nothing was changed",
            )
        if settled != agreed:
            raise ConfigurationError(
                f"the folder {folder!r} belongs to the home {settled!r}, the catalog {catalog.url!r} to {agreed!r}",
                hint="if the catalog is right, name another folder, also an empty one, as LODESTONE_HOME, or remove `id` from "
                "this one's home.json; if the folder is (the collections on the Qdrant server begin with the right id), say "
                "`DELETE FROM home_facts` in the catalog's database and run this again",
            )

    @cached_property
    def store(self) -> VectorStore:
        """Return the vector store; an embedded one is locked for this process from here on.

        Raises:
            StoreLockedError: another process owns it; at once where it is the running service, which does not give it back.
        """
        from lodestone.store.factory import open_store

        if self.lent_store is not None:
            return self.lent_store
        wanted = self.settings.store
        if wanted.kind == "edge" and self.purpose != SERVICE_PURPOSE:
            refuse_beside_service(self.home, hint="stop the service, run this, and start the service again")
        aliases = self.catalog.alias_table()  # the home's id is created with the catalog
        if wanted.kind == "server":
            return self.store_server.open()
        return open_store(
            wanted.kind,
            root=self.home.store,
            aliases=aliases,
            lock_timeout=wanted.lock_timeout_s,
            owner=self.purpose,
            may_only_read=self.may_only_read,
            matrix_points=wanted.matrix_points,
        )

    @property
    def store_server(self) -> StoreServer:
        """Return where the vector store is that the settings name, and how it is used; for `store.kind = server`."""
        from lodestone.store.factory import StoreServer

        wanted = self.settings.store
        return StoreServer(
            url=wanted.urls,
            api_key=wanted.api_key.get_secret_value() if wanted.api_key else None,
            grpc_port=wanted.grpc_ports,
            timeout=wanted.timeout_s,
            patience=wanted.patience_s,
            writers=wanted.writers,
            placement=wanted.placement,
            namespace=self.home.id,
        )

    def promoted(self) -> dict[str, str]:
        """Return alias -> collection that is searched. Does not open an embedded store."""
        return self.catalog.alias_table().all() if self.settings.store.kind == "edge" else self.store.aliases()

    def close(self) -> None:
        """Flush and release everything that was opened. Idempotent."""
        for name in ("store", "catalog"):
            opened = self.__dict__.pop(name, None)
            if opened is not None:
                opened.close()


T = TypeVar("T")


def deferred(open_: Callable[[], T]) -> T:
    """Return a stand-in that calls `open_` for the store (or catalog) at every use; nothing is locked or created before."""
    return cast("T", _Deferred(open_))


class _Deferred:
    def __init__(self, open_: Callable[[], object]) -> None:
        self._open = open_

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        return getattr(self._open(), name)
