"""Calls that share a worker: which slices run beside each other."""

from __future__ import annotations

import asyncio

from lodestone_jobs.slice_calls import Company


def test_a_slice_that_needs_its_worker_waits_for_the_others_and_lets_nobody_in() -> None:
    told: list[str] = []

    async def run(company: Company, name: str, *, alone: bool, ends: asyncio.Event) -> None:
        async with company.join(alone=alone):
            told.append(f"{name} begins")
            await ends.wait()
            told.append(f"{name} ends")

    async def slices() -> None:
        company, first, killer, last = Company(), asyncio.Event(), asyncio.Event(), asyncio.Event()
        calls = [
            asyncio.create_task(run(company, name, alone=alone, ends=ends))
            for name, alone, ends in (
                ("a", False, first),
                ("b", False, first),
                ("killer", True, killer),
                ("c", False, last),
                ("d", False, last),
            )
        ]
        for ends in (first, killer, last):
            for _ in range(5):
                await asyncio.sleep(0)
            told.append("time passes")
            ends.set()
        await asyncio.gather(*calls)

    asyncio.run(slices())
    assert told == [
        *("a begins", "b begins", "time passes", "a ends", "b ends"),
        *("killer begins", "time passes", "killer ends"),
        *("c begins", "d begins", "time passes", "c ends", "d ends"),
    ]
