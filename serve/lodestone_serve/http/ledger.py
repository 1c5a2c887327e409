"""The ledger of idempotent writes, kept in the home's catalog; every look at it runs in a thread."""

from __future__ import annotations

import asyncio

from lodestone.access.caller import LOCAL_CALLER
from lodestone.catalog.records import WriteKey, WriteRecord
from lodestone.services.writes import WriteUseCases


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
