"""Catalog object over the SQL database that holds all facts but the vectors.

Driver and service may have it open at once. Every method blocks, is thread-safe, and is one short transaction (long reads are
iterators over pages, which hold no transaction between them). Methods take and return the records of records.py and of
use_records.py, and raise:

    CatalogError     the database cannot be read or written (also: a row that breaks a constraint)
    OutOfSpaceError  the disk is full; the transaction left nothing behind

Each subject has its module: corpora, images, photo_facts, captions, slices (receipts, loads), compaction, attempts, outcomes,
deletions (tombstones), removal, erasures, free_space, runs (failures), artifacts (aliases), tags (their outbox), queries
(feedback), trust (topics, events), guide_engines, duplicates, swaps (overrides), containers, thumbnails, idempotency (writes
with keys), rate_windows, api_keys, home_facts, export.

Example:
    >>> catalog = Catalog.open(home.catalog)  # doctest: +SKIP
    >>> corpus = catalog.ensure_corpus("holidays")  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy.engine import Engine

from lodestone.catalog.database.engine import MOST_CONNECTIONS, make_engine, make_reading_engine
from lodestone.catalog.database.free_space import FreeSpaceRows
from lodestone.catalog.database.migrate import ensure_head
from lodestone.catalog.database.unchanged import UnchangedFacts
from lodestone.catalog.embeddings.attempts import AttemptRows
from lodestone.catalog.embeddings.compaction import CompactionRows, ErasureRows
from lodestone.catalog.embeddings.outcomes import OutcomeRows
from lodestone.catalog.embeddings.slice_parts import ThumbnailRows
from lodestone.catalog.export import ExportRows
from lodestone.catalog.home_facts import HomeRows
from lodestone.catalog.identity import mint_image_id
from lodestone.catalog.pictures.browsing import BrowsingRows
from lodestone.catalog.pictures.captions import CaptionRows
from lodestone.catalog.pictures.corpora import ContainerRows, CorpusRows
from lodestone.catalog.pictures.deletions import DeletionRows
from lodestone.catalog.pictures.duplicates import DuplicateRows
from lodestone.catalog.pictures.images import ImageRows
from lodestone.catalog.pictures.names import NameRows
from lodestone.catalog.pictures.photo_facts import PhotoFactRows
from lodestone.catalog.pictures.removal import RemovalRows
from lodestone.catalog.service.api_keys import KeyRows
from lodestone.catalog.service.idempotency import IdempotencyRows
from lodestone.catalog.service.rate_windows import RateRows
from lodestone.catalog.use.queries import QueryRows
from lodestone.catalog.use.tags import TagRows
from lodestone.catalog.use.trust import TrustRows
from lodestone.catalog.work.artifacts import ArtifactRows, EngineRows
from lodestone.catalog.work.runs import RunRows
from lodestone.catalog.work.swaps import SwapRows
from lodestone.errors import CatalogError, LodestoneError, OutOfSpaceError


class Catalog(
    CorpusRows,
    ImageRows,
    BrowsingRows,
    NameRows,
    PhotoFactRows,
    CaptionRows,
    CompactionRows,
    AttemptRows,
    OutcomeRows,
    DeletionRows,
    RemovalRows,
    ErasureRows,
    FreeSpaceRows,
    RunRows,
    ArtifactRows,
    TagRows,
    QueryRows,
    TrustRows,
    EngineRows,
    DuplicateRows,
    SwapRows,
    ContainerRows,
    ThumbnailRows,
    KeyRows,
    IdempotencyRows,
    RateRows,
    HomeRows,
    ExportRows,
):
    """Catalog of a home, made with `Catalog.open`; the module's docstring describes its contract."""

    mint_image_id = staticmethod(mint_image_id)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        before_creating: Callable[[], None] | None = None,
        may_only_read: bool = False,
        connections: int = MOST_CONNECTIONS,
    ) -> Self:
        """Open a catalog, and create or migrate its tables first if necessary.

        Args:
            location: A URL (`sqlite:////absolute/path`, `postgresql+psycopg://…`), or the path of an SQLite file.
            before_creating: Called before an SQLite file that is missing or has no tables becomes a new catalog. An error that
                it raises prevents that, and nothing is created.
            may_only_read: Open an SQLite file on a full or read-only disk for reading. Then every change raises the error that
                opening it would have raised.
            connections: Connections to a server at most.

        Raises:
            HomeVersionError: A newer Lodestone wrote it; nothing was changed.
            ConfigurationError: The location cannot be used.
            CatalogError: It is not a database, or it is damaged.
            OutOfSpaceError: The disk is full.
        """
        engine = make_engine(location, connections=connections)
        try:
            ensure_head(engine, before_creating=before_creating)
        except (CatalogError, OutOfSpaceError) as error:
            engine.dispose()
            reading = _reading_engine(engine, error) if may_only_read else None
            if reading is None:
                raise
            catalog = cls(reading)
            catalog._refusal = error
            return catalog
        except BaseException:
            engine.dispose()
            raise
        catalog = cls(engine)
        if catalog.path is not None:
            catalog._facts = UnchangedFacts(catalog.path)
        return catalog

    @property
    def url(self) -> str:
        """Return the database's URL without the password."""
        return self._engine.url.render_as_string(hide_password=True)

    @property
    def path(self) -> Path | None:
        """Return the path of the SQLite file; None for a server."""
        database = self._engine.url.database
        return Path(database) if self._engine.dialect.name == "sqlite" and database else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _reading_engine(engine: Engine, error: LodestoneError) -> Engine | None:
    """Return a connection pool for reading where the file of `engine` cannot be written; None if it has another fault."""
    if engine.dialect.name != "sqlite" or not engine.url.database:
        return None
    path = Path(engine.url.database)
    if not isinstance(error, OutOfSpaceError) and os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
        return None
    reading = make_reading_engine(path)
    if reading is not None:
        try:
            ensure_head(reading)
        except (LodestoneError, OSError):  # it is not at the current schema, or damaged: the first error tells more
            reading.dispose()
            return None
    return reading
