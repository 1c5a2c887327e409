"""State that replicas share through the catalog: keys and answers of writes that are done once, and counts of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodestone.access.caller import Caller
from lodestone.services.limits import need_whole_home

if TYPE_CHECKING:
    from lodestone.catalog.records import WriteKey, WriteRecord
    from lodestone.catalog.service.rate_windows import TokenGrant
    from lodestone.services.sessions.session import HomeSession


class WriteUseCases:
    """Keeps the ledger of writes with an idempotency key. Only the service itself asks for it: for whole homes alone."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    def claim(self, write: WriteKey, caller: Caller) -> WriteRecord | None:
        """Claim a key for its first write and return None, or return the record of that first write."""
        need_whole_home(caller, "writes of everybody")
        return self._session.runtime.catalog.claim_write(write)

    def answer(self, write: WriteKey, caller: Caller, *, status: int, body: bytes) -> None:
        """Keep the answer to a claimed write."""
        need_whole_home(caller, "writes of everybody")
        self._session.runtime.catalog.answer_write(write, status=status, body=body)

    def forget(self, write: WriteKey, caller: Caller) -> None:
        """Free a claimed key again: the write was not done."""
        need_whole_home(caller, "writes of everybody")
        self._session.runtime.catalog.forget_write(write)


class RateUseCases:
    """Takes tokens of senders. Only the service itself asks for it: for whole homes alone."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    def take(self, sender: str, caller: Caller, *, amount: int, window_s: int, wanted: int) -> TokenGrant:
        """Take up to `wanted` of the `amount` requests that a sender may make in `window_s` seconds; see `take_tokens`."""
        need_whole_home(caller, "rates of everybody")
        return self._session.runtime.catalog.take_tokens(sender, amount=amount, window_s=window_s, wanted=wanted)
