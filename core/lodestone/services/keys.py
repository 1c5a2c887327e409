"""API keys: made, listed, replaced and ended by whoever administers the home."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from lodestone.access.caller import Caller
from lodestone.access.keys import ApiKey
from lodestone.errors import UnknownNameError
from lodestone.paging import PageRequest
from lodestone.services.limits import need_whole_home
from lodestone_schemas.access import KeyCreated, KeyInfo, KeyPage, KeyRequest, KeyRotation

if TYPE_CHECKING:
    from lodestone.access.key_cache import KeyStore
    from lodestone.services.sessions.session import HomeSession

_LISTED: Final = 50  # corpora that a hint names


def check_corpora(request: KeyRequest, store: KeyStore | None) -> None:
    """Raise if the request names a corpus that does not exist, unless it allows that.

    A key for a misspelt corpus sees nothing, and would see whatever is indexed under that name one day.

    Args:
        request: The key that is asked for.
        store: Where corpora are; None for a home that does not exist yet.

    Raises:
        UnknownNameError: names the corpus; the hint lists some that exist.
    """
    if request.allow_unknown_corpora or not request.corpora:
        return
    present = {} if store is None else store.corpus_ids(request.corpora)
    missing = next((name for name in request.corpora if name not in present), None)
    if missing is None:
        return
    known = [] if store is None else [corpus.name for corpus in store.corpora(0, _LISTED)]
    raise UnknownNameError(
        f"unknown corpus {missing!r}",
        hint=f"known: {', '.join(known) or 'none yet'}; for a corpus to come add --force (over HTTP: allow_unknown_corpora)",
        kind="corpus",
        name=missing,
        known=known,
    )


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
            UnknownNameError: a corpus does not exist, and the request does not allow that.
        """
        store = self.store(caller)
        key, written = ApiKey.new(request)
        check_corpora(request, store)
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
