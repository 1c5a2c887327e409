"""When parts of a service under load are killed, no answer is wrong, nobody waits in vain, and all comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.loading.answers import Ranking
from benchmarks.loading.disturbing import Disturbed, disturbed_load, plan, service_faults
from benchmarks.loading.generator import NOT_OURS
from benchmarks.loading.outcomes import Verdict
from benchmarks.loading.recovery import aftermaths
from benchmarks.loading.service import REPLICA, Running, flags_for, running, settings_of
from benchmarks.loading.stand import Stand, run_stand
from benchmarks.loading.summary import errors
from tests.support.homes import index, write_pictures
from tests.support.models import model_context

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.ray,
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
]
TEXTS = ["a photo of a cat", "a cup of coffee", "a rocket", "a person", "coloured dots"]
SEED = 5
GRACE = 15.0  # seconds past a deadline: what answers at all, on however busy a machine, does not hang


@pytest.fixture(scope="module")
def stand(qdrant_binary: Path, postgres_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with run_stand(tmp_path_factory.mktemp("stand"), binary=qdrant_binary, postgres=postgres_binaries) as servers:
        yield servers


@pytest.fixture(scope="module")
def service(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("home")
    models: dict[str, Any] = {"cache": str(model_context().cache.root), "threads": 1}
    inline = {"executor": "inline", "slice_size": 8, "workers": 1}
    flags = flags_for(folder / "home", models=models, index=inline, **stand.sections)
    write_pictures(folder / "pictures", drawn=8)
    index(settings_of(flags), folder / "pictures")
    with running(flags, host="ray") as served:
        yield served


@pytest.fixture(scope="module")
def replicas(service: Running) -> list[int]:
    """Ids of the processes that answered before."""
    return service.processes(REPLICA)


@pytest.fixture(scope="module")
def disturbed(stand: Stand, service: Running, replicas: list[int]) -> Disturbed:
    """A replica, one Qdrant node of three and PostgreSQL, killed in an order drawn from the seed."""
    faults = [*service_faults(service, seed=SEED, proxy=False), *stand.faults(seed=SEED)]
    planned = plan(faults, seed=SEED, rest=1.0, down=1.5)
    return asyncio.run(disturbed_load(service.url, TEXTS, planned, rate=4, deadline=4.0, patience=60.0, seed=SEED, grace=GRACE))


def test_no_answer_is_wrong(disturbed: Disturbed) -> None:
    answered = [one for one in disturbed.outcomes if one.in_time]
    assert len(answered) > len(TEXTS)
    reference = disturbed.reference
    assert [reference.difference(one) for one in answered if reference.contradicted_by(one)] == []
    cat = disturbed.reference.complete[0][0]
    swapped = Ranking((cat.hits[1], cat.hits[0], *cat.hits[2:]), cat.scores)
    assert not cat.is_like(swapped)  # (the comparison could tell)


def test_nobody_waits_beyond_the_deadline_in_vain(disturbed: Disturbed) -> None:
    assert [one for one in disturbed.outcomes if one.verdict == Verdict.HUNG] == []


def test_after_each_fault_the_service_answers_again(disturbed: Disturbed) -> None:
    rows = aftermaths(disturbed.outcomes, disturbed.struck, end=disturbed.seconds, reference=disturbed.reference)
    assert len(rows) == 3
    assert [row for row in rows if not row.recovered] == []


def test_what_fails_fails_as_a_problem_or_for_want_of_a_connection(disturbed: Disturbed) -> None:
    """Never a half answer, nor one that Lodestone did not write: the clients tell the proxy nothing of their deadlines."""
    odd = [one for one in errors(disturbed.outcomes) if one.status and one.code in {"", NOT_OURS, "internal_error"}]
    assert odd == []


def test_the_replica_that_answers_now_is_another_one(disturbed: Disturbed, service: Running, replicas: list[int]) -> None:
    """The kill was real: Ray Serve started a new process."""
    assert any(fault.name.startswith("replica") for fault in disturbed.struck)
    assert len(replicas) == 1
    assert len(set(service.processes(REPLICA)) - set(replicas)) == 1
