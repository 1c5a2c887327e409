"""Do the planner's formulas give what can be worked out by hand, and does its simulation behave like a job?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lodestone.config.profiles import find_profile
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.planner.capacity import Cluster, build_core_seconds, decode_rate, model_rate, plan, searches_a_query
from lodestone.planner.rates import DEFAULT_RATES, Rates, find_gpu
from lodestone.planner.simulate import Scenario, simulate
from lodestone.planner.workload import Workload, of_profile, parse_count
from lodestone_schemas.collections import HnswSpec, Quantization

HUNDRED_MILLION = Workload(
    images=100_000_000,
    models={"m": 10.0},
    spaces={"a": 1280, "b": 1280, "c": 384, "d": 512},
    stored=2560,
    hnsw=HnswSpec(m=16),
    guides=9,
)
FOUR_H100 = Cluster(gpus=4, gpu=find_gpu("h100"))


@pytest.mark.parametrize(
    ("quantization", "gigabytes"), [(Quantization.NONE, 1382.4), (Quantization.INT8, 345.6), (Quantization.BINARY, 43.2)]
)
def test_vectors_of_a_hundred_million_pictures_take_what_multiplication_says(
    quantization: Quantization, gigabytes: float
) -> None:
    made = plan(replace(HUNDRED_MILLION, quantization=quantization), FOUR_H100, DEFAULT_RATES)
    assert made.vectors_ram_gb == pytest.approx(gigabytes)
    assert made.graph_ram_gb == pytest.approx(4 * 12.8)  # 2 x 16 links of 4 bytes, four spaces
    assert made.slices == 390_625


def test_replicas_double_memory_and_disk_and_not_the_embeddings() -> None:
    one = plan(HUNDRED_MILLION, FOUR_H100, DEFAULT_RATES)
    two = plan(replace(HUNDRED_MILLION, replication=2), FOUR_H100, DEFAULT_RATES)
    assert two.ram_gb == pytest.approx(2 * one.ram_gb)
    assert two.store_disk_gb == pytest.approx(2 * one.store_disk_gb)
    assert two.embeddings_gb == one.embeddings_gb


def test_cards_and_cores_run_models_at_the_rates_of_the_formula() -> None:
    rates = Rates(gpu_utilisation=0.5, core_gmacs=40)
    work = replace(HUNDRED_MILLION, models={"m": 100.0})
    assert model_rate(work, Cluster(gpus=2, gpu=find_gpu("a100")), rates) == pytest.approx(2 * 312e12 * 0.5 / 200e9)
    assert model_rate(work, Cluster(model_cores=10), rates) == pytest.approx(4.0)


def test_the_slowest_stage_sets_the_pace() -> None:
    slow_network = plan(HUNDRED_MILLION, replace(FOUR_H100, network_gbit=0.24), DEFAULT_RATES)
    assert slow_network.bottleneck == "read"
    assert slow_network.images_per_second == pytest.approx(10.0)  # 0.24 Gbit/s of 3 MB
    assert slow_network.index_hours == pytest.approx(1e8 / 10 / 3600)
    few_decoders = plan(HUNDRED_MILLION, replace(FOUR_H100, network_gbit=1000, decode_cores=1), DEFAULT_RATES)
    assert few_decoders.bottleneck == "decode"


def test_without_cards_the_same_cores_decode_and_compute() -> None:
    work = replace(HUNDRED_MILLION, models={"m": 4.0})
    made = plan(work, Cluster(model_cores=2, network_gbit=1000), Rates(decode=10, core_gmacs=40))
    assert made.images_per_second == pytest.approx(2 / (1 / 10 + 1 / 10))
    assert made.decode_cores == 2


def test_smaller_pictures_decode_faster_but_not_in_proportion() -> None:
    large, small = (
        decode_rate(HUNDRED_MILLION, DEFAULT_RATES),
        decode_rate(replace(HUNDRED_MILLION, megapixels=1), DEFAULT_RATES),
    )
    assert large < small < 12 * large


def test_a_graph_costs_what_the_measured_one_does() -> None:
    reference = Workload(images=1_000_000, spaces={"a": 512}, hnsw=HnswSpec(m=8, ef_construct=64))
    assert build_core_seconds(reference, DEFAULT_RATES) == pytest.approx(1_000_000 / DEFAULT_RATES.build)
    double = replace(reference, hnsw=HnswSpec(m=8, ef_construct=128))
    assert build_core_seconds(double, DEFAULT_RATES) == pytest.approx(2_000_000 / DEFAULT_RATES.build)


def test_guides_are_merged_above_ten_million_pictures() -> None:
    assert searches_a_query(HUNDRED_MILLION) == 4 * 2
    assert searches_a_query(replace(HUNDRED_MILLION, images=1_000_000)) == 4 * 10
    assert searches_a_query(replace(HUNDRED_MILLION, guides=0)) == 4


@pytest.mark.parametrize("profile", ["embedded", "fast", "balanced", "accurate"])
def test_every_profile_has_known_models(profile: str) -> None:
    work = of_profile(find_profile(profile), 1000)
    assert work.notes == ()
    assert all(work.models.values()) and all(work.spaces.values())


def test_unknown_models_are_assumed_and_said_to_be() -> None:
    profile = replace(find_profile("fast"), backbones=("timm:new",), direct={"regnet": "timm:new"}, spaces=("regnet",))
    assert len(of_profile(profile, 1000).notes) == 2


@pytest.mark.parametrize(
    ("text", "count"), [("100M", 10**8), ("1.5k", 1500), ("20_000", 20_000), ("2,500", 2500), ("1B", 10**9)]
)
def test_numbers_of_pictures_are_read(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "0", "many", "-5", "1e6x", "12 apples"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_count(text)


def test_an_unknown_card_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError) as raised:
        find_gpu("voodoo2")
    assert "h100" in raised.value.hint


@pytest.mark.parametrize(
    "wrong",
    [{"gpus": 2}, {"model_cores": 0}, {"model_cores": 2, "network_gbit": 0}, {"model_cores": 2, "qdrant_nodes": 0}],
)
def test_impossible_clusters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidRequestError):
        Cluster(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 0.0])
def test_numbers_that_are_none_are_refused(number: float) -> None:
    for name in ("megabytes", "megapixels"):
        with pytest.raises(InvalidRequestError, match=f"{name} cannot be"):
            replace(HUNDRED_MILLION, **{name: number})
    with pytest.raises(InvalidRequestError, match="carries nothing"):
        Cluster(model_cores=2, network_gbit=number)
    with pytest.raises(InvalidRequestError, match="time between failures"):
        replace(STEADY, hours_between_failures=0.0 if number else -1.0)
    with pytest.raises(InvalidRequestError, match="time between failures"):
        replace(STEADY, hours_between_failures=float("nan"))


STEADY = Scenario(images=256_000, workers=10, rate=100, spread=0, straggler_share=0, driver_seconds=0, start_seconds=0)


def test_equal_workers_without_accidents_are_perfectly_efficient() -> None:
    assert simulate(STEADY).efficiency == pytest.approx(1.0)


def test_each_trouble_costs_time() -> None:
    for trouble in (
        {"straggler_share": 0.1},
        {"hours_between_failures": 0.05},
        {"driver_seconds": 1.0},
        {"start_seconds": 60.0},
    ):
        assert simulate(replace(STEADY, **trouble), seed=3).seconds > simulate(STEADY).seconds * 1.01, trouble


def test_unequal_workers_cost_the_end_of_the_job_alone() -> None:
    run = simulate(replace(STEADY, spread=0.5), seed=3)
    assert 0 < run.seconds - STEADY.images / 1000 <= run.tail_seconds


def test_a_driver_that_is_too_slow_bounds_the_job() -> None:
    assert simulate(replace(STEADY, driver_seconds=1.0)).seconds >= 1000  # one second for each of 1,000 slices


def test_every_slice_of_a_dead_worker_is_done_again() -> None:
    run = simulate(replace(STEADY, hours_between_failures=0.02), seed=1)
    assert run.deaths > 10
    assert run.repeated_images > 0
    assert run.seconds > STEADY.images / 1000 + run.repeated_images / 1000


def test_small_slices_leave_a_shorter_tail() -> None:
    spread = replace(STEADY, spread=0.5, images=64_000)
    assert simulate(replace(spread, slice_size=32)).tail_seconds < simulate(spread).tail_seconds


def test_the_same_seed_simulates_the_same() -> None:
    rough = replace(STEADY, spread=0.3, straggler_share=0.1, hours_between_failures=0.1)
    assert simulate(rough, seed=5) == simulate(rough, seed=5)
    assert simulate(rough, seed=5) != simulate(rough, seed=6)
