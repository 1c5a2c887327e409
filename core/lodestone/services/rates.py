"""Counts of the requests of each sender, which all replicas of a service share through the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodestone.access.caller import Caller
from lodestone.services.limits import need_whole_home

if TYPE_CHECKING:
    from lodestone.catalog.service.rate_windows import TokenGrant
    from lodestone.services.sessions.session import HomeSession


class RateUseCases:
    """Takes tokens of senders. Only the service itself asks for it: for whole homes alone."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    def take(self, sender: str, caller: Caller, *, amount: int, window_s: int, wanted: int) -> TokenGrant:
        """Take up to `wanted` of the `amount` requests that a sender may make in `window_s` seconds; see `take_tokens`."""
        need_whole_home(caller, "rates of everybody")
        return self._session.runtime.catalog.take_tokens(sender, amount=amount, window_s=window_s, wanted=wanted)
