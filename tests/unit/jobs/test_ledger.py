"""The ledger of a bulk run: who is to blame when a worker or a node is lost, and what is kept until the driver has it."""

from __future__ import annotations

from lodestone.errors import WorkerDiedError
from lodestone_jobs.ledger import Ledger, RefusedSlice, WorkerPlace

OLD, NEW = WorkerPlace("host:1", "node-a", "first"), WorkerPlace("host:2", "node-a", "second")
ELSEWHERE = WorkerPlace("host:3", "node-b", "third")


def beside(refusal: RefusedSlice | None) -> int:
    assert refusal is not None
    assert isinstance(refusal.error, WorkerDiedError)
    found: int = refusal.error.details["beside"]
    return found


def test_a_slice_whose_worker_died_is_refused_and_every_companion_says_the_same() -> None:
    ledger = Ledger(lambda: {"node-a"})
    for ticket in (1, 2, 3):
        assert ledger.begin(ticket, OLD) is None
    assert ledger.begin(4, ELSEWHERE) is None
    ledger.end([3])
    refusal = ledger.begin(1, NEW)
    assert refusal is not None
    assert refusal.worker == "host:1"
    assert [beside(refusal), beside(ledger.begin(2, NEW))] == [1, 1]
    assert ledger.begin(3, NEW) is None  # it was finished when the worker died


def test_a_worker_that_had_one_slice_is_blamed_on_it_alone() -> None:
    ledger = Ledger(lambda: {"node-a"})
    ledger.begin(1, OLD)
    ledger.begin(2, OLD, ended=[1])
    assert beside(ledger.begin(2, NEW)) == 0


def test_a_call_that_its_own_worker_repeats_goes_on() -> None:
    ledger = Ledger(lambda: {"node-a"})
    assert ledger.begin(1, OLD) is None
    assert ledger.begin(1, OLD) is None


def test_another_process_with_the_same_number_in_its_container_is_another_worker() -> None:
    ledger = Ledger(lambda: {"node-a"})
    ledger.begin(1, OLD)
    assert beside(ledger.begin(1, WorkerPlace(OLD.worker, OLD.node, "after a restart"))) == 0


def test_slices_of_a_lost_node_begin_again_and_are_blamed_after_five_nodes() -> None:
    ledger = Ledger(lambda: {"node-b"})
    places = [WorkerPlace(f"host:{number}", f"lost-{number}", f"process {number}") for number in range(6)]
    assert [ledger.begin(1, place) for place in places[:5]] == [None] * 5
    assert beside(ledger.begin(1, places[5])) == 0


def test_a_refusal_is_repeated_until_the_driver_has_the_receipt() -> None:
    ledger = Ledger(lambda: {"node-a"})
    ledger.begin(1, OLD)
    first = ledger.begin(1, NEW)
    assert first is not None
    assert ledger.begin(1, ELSEWHERE) == first  # the worker that was to pass it on died, too
    ledger.forget([1])
    assert ledger.begin(1, ELSEWHERE) is None


def test_nothing_is_kept_of_slices_whose_receipts_the_driver_has() -> None:
    ledger = Ledger(lambda: {"node-b"})
    ledger.begin(1, OLD)
    ledger.begin(1, ELSEWHERE)  # lost with its node once
    ledger.begin(2, ELSEWHERE)
    ledger.forget([1, 2])
    assert ledger._begun == ledger._refused == ledger._lost == {}  # a run of a week has millions of them
