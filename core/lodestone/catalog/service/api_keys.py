"""API keys in the catalog: creation, revocation, rotation and times of last use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, or_, select, update

from lodestone.access.keys import ApiKey
from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_schemas.access import Scope

_NEWEST = (tables.api_keys.c.created_at.desc(), tables.api_keys.c.key_id)
_USED = (
    update(tables.api_keys)
    .where(tables.api_keys.c.key_id == bindparam("of_key"))
    .where(or_(tables.api_keys.c.last_used_at.is_(None), tables.api_keys.c.last_used_at < bindparam("at")))
    .values(last_used_at=bindparam("at"))
)


class KeyRows(CatalogBase):
    """Part of the catalog that keeps API keys, without their secrets."""

    def add_key(self, key: ApiKey) -> None:
        """Add a new key to the catalog."""
        self._write(lambda connection: connection.execute(insert(tables.api_keys), _values(key)))

    def key(self, key_id: str) -> ApiKey | None:
        """Return one key, valid or not; None for an unknown id."""
        with self._reading() as connection:
            row = connection.execute(select(tables.api_keys).where(tables.api_keys.c.key_id == key_id)).first()
        return None if row is None else _key(row)

    def keys(self, offset: int = 0, limit: int = 100) -> list[ApiKey]:
        """Return a page of keys, newest first, including invalid ones."""
        query = select(tables.api_keys).order_by(*_NEWEST).offset(offset).limit(limit)
        with self._reading() as connection:
            return [_key(row) for row in connection.execute(query)]

    def revoke_key(self, key_id: str) -> ApiKey:
        """Revoke a key now; a key that was revoked before stays unchanged.

        Raises:
            NotFoundError: There is no such key.
        """
        table = tables.api_keys

        def change(connection: Connection) -> ApiKey:
            connection.execute(
                update(table).where(table.c.key_id == key_id, table.c.revoked_at.is_(None)).values(revoked_at=datetime.now(UTC))
            )
            return _existing_key(connection, key_id)

        return self._write(change)

    def rotate_key(self, key_id: str, *, until: datetime) -> tuple[ApiKey, str]:
        """Replace a key by a new one, and return the new key with its written form.

        The old key stays valid until `until` at most.

        Raises:
            NotFoundError: There is no such key, or it is not valid any more.
        """
        table = tables.api_keys

        def change(connection: Connection) -> tuple[ApiKey, str]:
            now = datetime.now(UTC)
            old = _existing_key(connection, key_id)
            if reason := old.invalid(now):
                raise NotFoundError(
                    f"the key {key_id!r} is {reason}", hint="make a new one: lodestone keys create", key_id=key_id
                )
            base_id = old.key_id.partition("-")[0]
            generations = connection.execute(
                select(table).where(or_(table.c.key_id == base_id, table.c.key_id.like(f"{base_id}-%")))
            )
            new, written = old.rotated(max(_key(row).generation for row in generations) + 1, now=now)
            expires_at = until if old.expires_at is None else min(until, old.expires_at)
            connection.execute(update(table).where(table.c.key_id == key_id).values(expires_at=expires_at))
            connection.execute(insert(table), _values(new))
            return new, written

        return self._write(change)

    def keys_used(self, used: Mapping[str, datetime]) -> None:
        """Record when keys were last used: id -> time. A time before the recorded one changes nothing."""
        if used:
            rows = [{"of_key": key_id, "at": at} for key_id, at in sorted(used.items())]
            self._write(lambda connection: connection.execute(_USED, rows))


def rename_in_keys(connection: Connection, old: str, new: str) -> list[str]:
    """Replace the name of a corpus in all keys that name it, and return their ids in order.

    Raises:
        InvalidRequestError: A valid key names `new` and not `old`: it would see the corpus, which it does not see now.
    """
    table, now = tables.api_keys, datetime.now(UTC)
    keys = [_key(row) for row in connection.execute(select(table).where(table.c.corpora.is_not(None)).order_by(table.c.key_id))]
    named = [key for key in keys if key.corpora and old in key.corpora]
    gaining = [key for key in keys if key.corpora and new in key.corpora and old not in key.corpora and not key.invalid(now)]
    if gaining:
        listed = ", ".join(f"{key.key_id} ({key.name})" for key in gaining)
        raise InvalidRequestError(
            f"keys name {new!r} already, and would see the corpus: {listed}",
            hint="revoke them (`lodestone keys revoke`), or choose another name",
        )
    for key in named:
        corpora = list(dict.fromkeys(new if name == old else name for name in key.corpora or ()))
        connection.execute(update(table).where(table.c.key_id == key.key_id).values(corpora=corpora))
    return [key.key_id for key in named]


def _existing_key(connection: Connection, key_id: str) -> ApiKey:
    row = connection.execute(select(tables.api_keys).where(tables.api_keys.c.key_id == key_id)).first()
    if row is None:
        raise NotFoundError(f"there is no key {key_id[:64]!r}", hint="lodestone keys list", key_id=key_id[:64])
    return _key(row)


def _values(key: ApiKey) -> dict[str, Any]:
    return asdict(key) | {
        "scopes": [str(scope) for scope in key.scopes],
        "corpora": None if key.corpora is None else list(key.corpora),
    }


def _key(row: Row[Any]) -> ApiKey:
    values = row._asdict()
    corpora = values["corpora"]
    return ApiKey(
        **{
            **values,
            "scopes": tuple(Scope(scope) for scope in values["scopes"]),
            "corpora": None if corpora is None else tuple(corpora),
        }
    )
