"""Busy shares of stages, and which one limits the others."""

from __future__ import annotations

import pytest

from lodestone.indexing.progress import Meter, ProgressEvent, RunStage
from lodestone.indexing.stage_stats import EmbedStage, StageShare, StageStats, added, limiting

SLOTS = {EmbedStage.FETCH: 100, EmbedStage.DECODE: 2, EmbedStage.EMBED: 1, EmbedStage.WRITE: 4}


def test_shares_are_of_the_time_that_a_stage_had() -> None:
    now = [10.0]
    stats = StageStats(dict(SLOTS), clock=lambda: now[0])
    assert limiting(stats.shares()) is None
    stats.begin()
    stats.add(EmbedStage.DECODE, 12.0, pictures=500)
    stats.add(EmbedStage.EMBED, 9.0, pictures=480)
    now[0] += 10.0
    stats.begin()  # the clock goes on
    shares = {share.stage: share for share in stats.shares()}
    assert shares[EmbedStage.DECODE].busy == pytest.approx(0.6)
    assert shares[EmbedStage.EMBED].busy == pytest.approx(0.9)
    assert shares[EmbedStage.DECODE].rate == pytest.approx(50.0)
    assert limiting(shares.values()) is EmbedStage.EMBED


def test_workers_are_added_up() -> None:
    one = (StageShare(EmbedStage.EMBED, 100, 9.0, 1, 10.0), StageShare(EmbedStage.WRITE, 90, 1.0, 2, 10.0))
    other = (StageShare(EmbedStage.EMBED, 50, 3.0, 1, 8.0),)
    embed, write = added([one, other])
    assert (embed.pictures, embed.busy_seconds, embed.slots, embed.seconds) == (150, 12.0, 2, 10.0)
    assert embed.busy == pytest.approx(0.6)
    assert write == one[1]


def test_events_carry_the_stages() -> None:
    events: list[ProgressEvent] = []
    meter = Meter(events.append, RunStage.EMBED, total=10)
    meter.stages = (StageShare(EmbedStage.EMBED, 100, 9.0, 1, 10.0),)
    meter.add(1)
    assert [event.stages for event in events] == [(), meter.stages]
