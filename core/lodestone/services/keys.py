"""API keys: made, listed, replaced and ended by whoever administers the home."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lodestone.access.caller import Caller
from lodestone.access.key_cache import KeyStore
from lodestone.access.keys import ApiKey
from lodestone.paging import PageRequest
from lodestone.services.limits import need_whole_home
from lodestone_schemas.access import KeyCreated, KeyInfo, KeyPage, KeyRequest, KeyRotation

if TYPE_CHECKING:
    from lodestone.services.sessions.session import HomeSession


class KeyUseCases:
    """Manages the API keys of one home. Every method raises `ForbiddenError` for a caller who does not see the whole home."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    def store(self, caller: Caller) -> KeyStore:
        """Return where keys are kept: for whoever checks the keys of requests."""
        need_whole_home(caller, "keys")
        return self._session.runtime.catalog

    def page(self, page: PageRequest, caller: Caller) -> KeyPage:
        """Return one page of keys without their secrets, newest first; also those that are not valid any more."""
        rows = self.store(caller).keys(page.offset, page.limit + 1)
        more = len(rows) > page.limit
        return KeyPage(keys=[key.info() for key in rows[: page.limit]], next_offset=page.offset + page.limit if more else None)

    def create(self, request: KeyRequest, caller: Caller) -> KeyCreated:
        """Make a key. Its secret is in this answer, and nowhere else.

        Raises:
            InvalidRequestError: the request makes no key; see `ApiKey.new`.
        """
        store = self.store(caller)
        key, written = ApiKey.new(request)
        store.add_key(key)
        return KeyCreated(key=key.info(), secret=written)

    def rotate(self, key_id: str, rotation: KeyRotation, caller: Caller) -> KeyCreated:
        """Put a new key in a key's place; the old one stays valid for `rotation.overlap_s` seconds.

        Raises:
            NotFoundError: the key is unknown or not valid any more.
        """
        until = datetime.now(UTC) + timedelta(seconds=rotation.overlap_s)
        key, written = self.store(caller).rotate_key(key_id, until=until)
        return KeyCreated(key=key.info(), secret=written)

    def revoke(self, key_id: str, caller: Caller) -> KeyInfo:
        """End a key now.

        Raises:
            NotFoundError: the key is unknown.
        """
        return self.store(caller).revoke_key(key_id).info()
