"""Records are written together under load, at once after a pause or when asked for, and all before a clean stop."""

from __future__ import annotations

import threading
from typing import Any, cast

from lodestone.query_log.recorder import AT_ONCE, Recorder
from lodestone.query_log.trace import Trace

LONG_S = 3600.0


class Kept:
    """Keeps what it is given, in the lists in which it comes."""

    def __init__(self) -> None:
        self.transactions: list[list[str]] = []
        self.came = threading.Event()

    def keep_all(self, traces: list[Trace]) -> list[str]:
        self.transactions.append(cast("Any", traces))
        self.came.set()
        return []


def offer(recorder: Recorder, keeper: Kept, name: str) -> bool:
    return recorder.offer(name, keeper, lambda: cast("Any", name))


def test_the_first_record_after_a_pause_is_written_at_once_and_the_next_ones_together() -> None:
    recorder, keeper = Recorder(collects_s=LONG_S), Kept()
    offer(recorder, keeper, "first")
    assert keeper.came.wait(180)
    for name in ("second", "third"):
        offer(recorder, keeper, name)
    assert recorder.pending("second")
    assert recorder.settle("second", timeout_s=180)  # whoever looks back does not wait for the hour
    assert keeper.transactions == [["first"], ["second", "third"]]
    assert recorder.close()


def test_a_clean_stop_writes_what_waits() -> None:
    recorder, keeper = Recorder(collects_s=LONG_S), Kept()
    offer(recorder, keeper, "first")
    assert keeper.came.wait(180)
    for number in range(5):
        offer(recorder, keeper, str(number))
    assert recorder.close(timeout_s=180)
    assert keeper.transactions == [["first"], ["0", "1", "2", "3", "4"]]
    assert not offer(recorder, keeper, "late")


def test_a_queue_with_enough_for_one_transaction_does_not_wait() -> None:
    recorder, keeper = Recorder(collects_s=LONG_S), Kept()
    offer(recorder, keeper, "first")
    assert keeper.came.wait(180)
    keeper.came.clear()
    for number in range(AT_ONCE):
        assert offer(recorder, keeper, str(number))
    assert keeper.came.wait(180)
    assert recorder.close(timeout_s=180)
    assert [len(names) for names in keeper.transactions] == [1, AT_ONCE]
