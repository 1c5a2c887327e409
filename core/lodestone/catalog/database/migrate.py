"""Detection of a catalog's schema revision, and migration to the current one.

A catalog at the current revision is recognised by one SELECT (Alembic is not even imported). An older or empty one is migrated
in one transaction, by one process at a time. One with an unknown revision was written by a newer Lodestone and is not changed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from lodestone.catalog.database.engine import CatalogBase, translated_errors, use_write_ahead_log
from lodestone.catalog.database.reader import patiently
from lodestone.errors import CatalogError, ConfigurationError, HomeVersionError, OutOfSpaceError

REVISIONS: tuple[str, ...] = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
)  # oldest first; the last is the schema of tables/
_SCRIPTS = Path(__file__).parents[1] / "migrations"
_LOCK_SECONDS = 60
_OPENING_SECONDS = 15  # a server that restarts is back by then; a wrong address should not take longer to be reported
_POSTGRES_LOCK = 0x10DE5704E  # an arbitrary number used for nothing else; held for the migration's transaction


def ensure_head(engine: Engine, *, before_creating: Callable[[], None] | None = None) -> None:
    """Bring the database to the current schema; return at once if it is there already.

    Args:
        engine: Connection pool of the database.
        before_creating: Called before a missing or empty SQLite file gets its tables.

    Raises:
        HomeVersionError: Its revision is unknown to this version. Nothing was changed.
        ConfigurationError: The folder of an SQLite file does not exist or cannot be written.
        CatalogError: It is not a catalog, or another process is still migrating it after a minute.
    """
    path = Path(engine.url.database or "") if engine.dialect.name == "sqlite" else None
    current = _current(engine) if path is None or _has_content(path) else None
    if current == REVISIONS[-1]:
        return
    if path is None:
        _upgrade(engine)
        return
    if not path.parent.is_dir():
        raise ConfigurationError(
            f"the catalog's folder {str(path.parent)!r} does not exist", hint="create it, or set LODESTONE_HOME"
        )
    if current is None and before_creating is not None:
        before_creating()

    from filelock import FileLock, Timeout  # only a new or older catalog needs it

    try:
        with FileLock(f"{path}.lock", timeout=_LOCK_SECONDS):
            if _current(engine) != REVISIONS[-1]:  # another opener may have done it meanwhile
                use_write_ahead_log(engine)
                _upgrade(engine)
    except Timeout as error:
        raise CatalogError(
            f"another process has been preparing the catalog {str(path)!r} for over {_LOCK_SECONDS} s",
            hint="wait for the other lodestone command to finish, or stop it",
        ) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OutOfSpaceError(
                "no space left for the catalog", hint="free some space and run the same command again"
            ) from error
        raise ConfigurationError(
            f"the catalog {str(path)!r} cannot be written: {error.strerror}",
            hint="set LODESTONE_HOME to a folder you may write",
        ) from error


def revision(connection: Connection) -> str | None:
    """Return the schema's revision; None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if version is None else str(version)


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _current(engine: Engine) -> str | None:
    """Return the revision of the database, None for an empty one; raise `HomeVersionError` for an unknown one."""

    def read_revision() -> str | None:
        with engine.connect() as connection:
            return revision(connection)

    with translated_errors():
        current = patiently(read_revision, seconds=_OPENING_SECONDS)
    if current is not None and current not in REVISIONS:
        raise HomeVersionError(
            f"the catalog has schema {current!r}; this Lodestone knows up to {REVISIONS[-1]!r}",
            hint="upgrade Lodestone, or set LODESTONE_HOME to another folder; nothing was changed",
            found=current,
            known=REVISIONS[-1],
        )
    return current


def _upgrade(engine: Engine) -> None:
    from alembic import command  # takes 0.2 s, which opening an up-to-date catalog saves
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))

    def run(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":  # an SQLite file is locked by `ensure_head`
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    # As every other write, but not serialisable: a process that waited for another's migration must see its changes.
    base = CatalogBase(engine)
    base._write(run, attempt=base._attempt)  # noqa: SLF001
