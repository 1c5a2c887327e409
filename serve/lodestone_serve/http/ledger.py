"""What requests keep in the home's catalog: the ledger of idempotent writes, and rates. Every look at it runs in a thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from lodestone.access.caller import LOCAL_CALLER
from lodestone.catalog.records import WriteKey, WriteRecord
from lodestone.catalog.service.rate_windows import TokenGrant
from lodestone.services.writes import RateUseCases, WriteUseCases

_THREADS: Final = 2


class CatalogLedger:
    """Implements `idempotency.WriteLedger` by the use cases of writes.

    Args:
        use_cases: They know the catalog.
    """

    def __init__(self, use_cases: WriteUseCases) -> None:
        self._use_cases = use_cases

    async def claim_write(self, write: WriteKey) -> WriteRecord | None:
        """Claim a key for its first write and return None, or return the record of that first write."""
        return await asyncio.to_thread(self._use_cases.claim, write, LOCAL_CALLER)

    async def answer_write(self, write: WriteKey, *, status: int, body: bytes) -> None:
        """Keep the answer to a claimed write."""
        await asyncio.to_thread(self._use_cases.answer, write, LOCAL_CALLER, status=status, body=body)

    async def forget_write(self, write: WriteKey) -> None:
        """Free a claimed key again: the write was not done."""
        await asyncio.to_thread(self._use_cases.forget, write, LOCAL_CALLER)


class CatalogRates:
    """Implements `shared_rates.SharedCounter` by the use cases of rates.

    Args:
        use_cases: They know the catalog.
    """

    def __init__(self, use_cases: RateUseCases) -> None:
        self._use_cases = use_cases
        # Threads of its own: those of the queries may all be busy.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lodestone-rates")

    async def take(self, sender: str, *, amount: int, window_s: int, wanted: int) -> TokenGrant:
        """Take tokens of a sender."""
        take = partial(self._use_cases.take, sender, LOCAL_CALLER, amount=amount, window_s=window_s, wanted=wanted)
        return await asyncio.get_running_loop().run_in_executor(self._threads, take)

    def close(self) -> None:
        """Let the threads end. Idempotent."""
        self._threads.shutdown(wait=False)
