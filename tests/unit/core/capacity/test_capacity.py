"""The planner's formulas give what can be worked out by hand, and its simulation behaves like a job."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodestone.capacity.advice import assumptions, cards_within
from lodestone.capacity.calibrate import MachineCalibration, calibrate
from lodestone.capacity.formulas import (
    Cluster,
    Plan,
    build_core_seconds,
    decode_rate,
    load_rate,
    model_rate,
    plan,
    search_cores,
    searches_a_query,
)
from lodestone.capacity.rates import DEFAULT_RATES, Rates, find_gpu
from lodestone.capacity.remembered import recall, remember
from lodestone.capacity.simulate import Scenario, simulate
from lodestone.capacity.store import shards
from lodestone.capacity.workload import Workload, of_profile, parse_count, picture_size
from lodestone.config.compositions import CompositionSettings, all_compositions
from lodestone.config.profiles import find_profile
from lodestone.config.settings import Settings, load_settings
from lodestone.errors import ConfigurationError, InvalidRequestError, UnknownNameError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.report import IndexReport
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
    assert made.store.vectors_ram_gb == pytest.approx(gigabytes)
    assert made.store.graph_ram_gb == pytest.approx(4 * 12.8)  # 2 x 16 links of 4 bytes, four spaces
    assert made.store.other_ram_gb == pytest.approx(4 * (4.0 + 20.0))  # uuids 4 GB a collection, fields 200 bytes a point
    assert made.slices == 390_625


def test_a_fused_index_is_one_more_collection_with_all_dimensions_and_more_edges() -> None:
    """By hand, for a million pictures: a bridge of 898 numbers, labels of 384 and a fused index that adds captions of 384."""
    profile = find_profile("embedded")
    compositions = all_compositions({}, profile).values()
    work = of_profile(profile, 1_000_000, compositions=compositions, hnsw=HnswSpec(m=16), quantization=Quantization.NONE)
    assert work.fused == {"default": {"bridge": 898, "labels": 384, "captions": 384}}
    made = plan(work, FOUR_H100, DEFAULT_RATES)
    assert made.fused.vectors_ram_gb == pytest.approx(1_666 * 4 / 1e3)
    assert made.fused.graph_ram_gb == pytest.approx(2 * 32 * 4 / 1e3)
    assert made.fused.other_ram_gb == pytest.approx(240 / 1e3)
    binary = plan(replace(work, quantization=Quantization.BINARY), FOUR_H100, DEFAULT_RATES)
    assert binary.fused.vectors_ram_gb == pytest.approx(1_666 / 1e3), "int8 takes the place of binary vectors"
    without = plan(replace(work, fused={}), FOUR_H100, DEFAULT_RATES)
    assert made.store.disk_gb == pytest.approx(without.store.disk_gb + made.fused.disk_gb)
    assert made.store.rule_gb == pytest.approx(without.store.rule_gb + made.fused.rule_gb)
    assert made.build_hours / without.build_hours == pytest.approx((1_282 * 128 + 1_666 * 256) / (1_282 * 128))
    load = {one.stage: one.images_per_second for one in made.stages}["load"]
    assert load / {one.stage: one.images_per_second for one in without.stages}["load"] == pytest.approx(1_282 / 2_948)


def test_a_new_version_of_a_space_makes_the_fused_indexes_that_hold_it_anew() -> None:
    holds, other = ({"one": {"a": 1280, "d": 512}}, {"one": {"c": 384, "d": 512}})
    plain, with_it, beside = (
        plan(replace(HUNDRED_MILLION, fused=fused), FOUR_H100, DEFAULT_RATES) for fused in ({}, holds, other)
    )
    assert with_it.swap.ram_gb == pytest.approx(plain.swap.ram_gb + with_it.fused.ram_gb)
    assert with_it.swap.projection_hours > plain.swap.projection_hours
    assert beside.swap.ram_gb == pytest.approx(plain.swap.ram_gb)


@pytest.mark.parametrize(
    ("pictures", "fused", "kept"),
    [
        (1_999, None, False),
        (2_000, None, True),
        (10**6, None, True),
        (10**6 + 1, None, False),
        (10**8, True, True),
        (9_000, False, False),
    ],
)
def test_a_plan_has_the_fused_indexes_that_the_home_will_have(pictures: int, fused: bool | None, kept: bool) -> None:
    profile = find_profile("embedded")
    composition = all_compositions({"default": CompositionSettings(fused=fused)}, profile)["default"]
    assert bool(of_profile(profile, pictures, compositions=[composition]).fused) is kept


def test_replicas_double_memory_and_disk_and_not_the_embeddings() -> None:
    one = plan(HUNDRED_MILLION, FOUR_H100, DEFAULT_RATES)
    two = plan(replace(HUNDRED_MILLION, replication=2), FOUR_H100, DEFAULT_RATES)
    assert two.store.ram_gb == pytest.approx(2 * one.store.ram_gb)
    assert two.store.disk_gb == pytest.approx(2 * one.store.disk_gb)
    assert two.swap.ram_gb == pytest.approx(2 * one.swap.ram_gb)
    assert two.embeddings_gb == one.embeddings_gb


def test_every_copy_of_a_point_is_loaded_and_has_a_graph() -> None:
    one, two = HUNDRED_MILLION, replace(HUNDRED_MILLION, replication=2)
    rates = Rates(upsert=1_000, reference_dim=512)
    assert load_rate(512, one, rates, nodes=4, writers=8) == pytest.approx(4_000)
    assert load_rate(512, two, rates, nodes=4, writers=8) == pytest.approx(2_000)
    assert load_rate(512, two, rates, nodes=4, writers=1) == pytest.approx(1_000)  # the driver is slower than the servers
    assert build_core_seconds(two, rates) == pytest.approx(2 * build_core_seconds(one, rates))


def test_cards_and_cores_run_models_at_the_rates_of_the_formula() -> None:
    rates = Rates(gpu_utilisation=0.5, core_gmacs=40)
    work = replace(HUNDRED_MILLION, models={"m": 100.0})
    assert model_rate(work, Cluster(gpus=2, gpu=find_gpu("a100")), rates) == pytest.approx(2 * 312e12 * 0.5 / 200e9)
    assert model_rate(work, Cluster(model_cores=10), rates) == pytest.approx(4.0)
    assert model_rate(work, Cluster(gpus=3, card_rate=70.0), rates) == pytest.approx(210.0)


def test_a_published_rate_holds_for_its_card_and_is_scaled_by_the_lesser_ratio_for_others() -> None:
    model = "timm:vit_large_patch14_clip_336.openai_ft_in12k_in1k"
    work = replace(HUNDRED_MILLION, models={model: 191.11})
    published, h100, l4 = (
        model_rate(work, Cluster(gpus=1, gpu=find_gpu(name)), DEFAULT_RATES) for name in ("rtx4090", "h100", "l4")
    )
    assert published == pytest.approx(291.64)
    assert h100 == pytest.approx(291.64 * 3350 / 1008)  # six times the arithmetic, but three times the bandwidth
    assert l4 == pytest.approx(291.64 * 300 / 1008)
    both = replace(work, models={model: 191.11, "open_clip:ViT-B-32/laion2b_s34b_b79k": 4.41})
    assert model_rate(both, Cluster(gpus=1, gpu=find_gpu("rtx4090")), DEFAULT_RATES) == pytest.approx(
        1 / (1 / 291.64 + 1 / 10127.5)
    )


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
    thumbnails = decode_rate(replace(HUNDRED_MILLION, megapixels=0.04), DEFAULT_RATES)
    assert thumbnails == pytest.approx(20 * large)  # 2.0 ms, where twelve megapixels take 41


@given(st.floats(0.001, 200), st.floats(0.001, 200))
def test_a_larger_picture_never_decodes_faster(one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert DEFAULT_RATES.decode_seconds(small) <= DEFAULT_RATES.decode_seconds(large)


def test_no_core_waits_for_an_object() -> None:
    files = plan(HUNDRED_MILLION, replace(FOUR_H100, network_gbit=1000), DEFAULT_RATES)
    objects = plan(replace(HUNDRED_MILLION, objects=True), replace(FOUR_H100, network_gbit=1000), DEFAULT_RATES)
    assert objects.decode_cores == files.decode_cores
    assert objects.discover_hours < files.discover_hours  # etags name their content: the driver reads none


def test_requests_bound_what_is_read_from_a_bucket_and_written_to_it() -> None:
    rates = replace(DEFAULT_RATES, object_wait_s=0.1, object_mb_s=100, object_write_s=0.04)
    work = replace(HUNDRED_MILLION, megabytes=0.04, megapixels=0.2, objects=True)
    cluster = replace(FOUR_H100, gpus=1, network_gbit=1000, decode_cores=1000)
    singles, shards = (dict_of(plan(replace(work, shards=each), cluster, rates)) for each in (False, True))
    assert singles["fetch"] == pytest.approx(256 / 0.1004)
    assert shards["fetch"] == pytest.approx(256 / (0.1 / 64 + 0.0004))  # 64 neighbours a request
    share = 4 / 2048 * 0.04  # of a slice's files: the model's outputs, thumbnails, captions, metadata
    stream = (work.thumbnail_bytes + 2 * work.stored) / 100e6
    assert singles["write"] == shards["write"] == pytest.approx(16 / (share + stream))
    assert "requests" not in singles
    few = plan(work, replace(cluster, object_requests=200), rates)
    assert dict_of(few)["requests"] == pytest.approx(200 / 0.1004, rel=0.01)  # writes hardly count
    assert few.bottleneck == "load" or few.images_per_second <= dict_of(few)["requests"]
    large = replace(work, megabytes=3.0, shards=True)
    assert dict_of(plan(large, cluster, rates))["fetch"] == pytest.approx(256 / 0.13)  # no two of 3 MB fit into 4 MB
    workers = plan(replace(work, models={"m": 4.0}), Cluster(model_cores=8, network_gbit=1000), rates)
    assert dict_of(workers)["fetch"] == pytest.approx(8 * 128 / 0.1004)


def test_the_plan_counts_the_requests_that_a_pipeline_has_under_way() -> None:
    from lodestone.capacity import buckets
    from lodestone.indexing.slices import limits as pipeline_limits
    from lodestone.sources import joined

    assert buckets.GPU_READS == pipeline_limits._GPU_REMOTE_READS
    assert buckets.CPU_READS == pipeline_limits._REMOTE_READS
    assert buckets.WRITES == pipeline_limits._REMOTE_WRITES
    assert (buckets.JOINED_PICTURES, buckets.JOINED_MB) == (joined.MOST_PICTURES, joined.MOST_BYTES / 1e6)


def test_the_driver_bounds_a_cluster_however_large_it_is() -> None:
    huge = replace(FOUR_H100, gpus=4000, network_gbit=1e6, qdrant_nodes=1000)
    made = plan(replace(HUNDRED_MILLION, spaces={"a": 8}), huge, DEFAULT_RATES)
    assert made.bottleneck == "record"
    assert made.images_per_second == DEFAULT_RATES.record


def test_no_more_servers_take_in_points_than_the_driver_has_writers() -> None:
    four, forty = (plan(HUNDRED_MILLION, replace(FOUR_H100, qdrant_nodes=nodes), DEFAULT_RATES) for nodes in (4, 40))
    assert dict_of(four)["load"] == dict_of(forty)["load"] == pytest.approx(4 * 13_800 * 512 / 3456)


def dict_of(made: Plan) -> dict[str, float]:
    return {stage.stage: stage.images_per_second for stage in made.stages}


def test_servers_are_as_many_as_hold_the_points_and_their_copies() -> None:
    made = plan(replace(HUNDRED_MILLION, quantization=Quantization.INT8), replace(FOUR_H100, node_ram_gb=64), DEFAULT_RATES)
    assert made.store.ram_to_buy_gb == pytest.approx(max(1.25 * made.store.ram_gb, made.store.rule_gb))
    assert made.qdrant_nodes == math.ceil(made.store.ram_to_buy_gb / 64)
    few = plan(replace(HUNDRED_MILLION, images=1000, replication=3), FOUR_H100, DEFAULT_RATES)
    assert few.qdrant_nodes == 3
    with pytest.raises(InvalidRequestError, match="3 copies"):
        plan(replace(HUNDRED_MILLION, replication=3), replace(FOUR_H100, qdrant_nodes=2), DEFAULT_RATES)


def test_memory_is_at_least_what_qdrants_own_rule_says() -> None:
    million = Workload(images=1_000_000, models={"m": 1.0}, spaces={"a": 1024}, payload_bytes=0)
    assert plan(million, FOUR_H100, DEFAULT_RATES).store.ram_to_buy_gb == pytest.approx(6.144)  # its documentation's example


@pytest.mark.parametrize(
    ("images", "nodes", "pieces"), [(10**6, 1, 1), (10**8, 1, 12), (10**8, 5, 15), (10**9, 8, 24), (10**9, 30, 30)]
)
def test_a_cluster_gets_twelve_to_twenty_four_shards_as_many_on_each_server(images: int, nodes: int, pieces: int) -> None:
    assert shards(images, nodes) == pieces


def test_every_shard_is_searched() -> None:
    asked = replace(HUNDRED_MILLION, queries_per_second=10)
    whole = search_cores(asked, DEFAULT_RATES, 8, shards=1)
    pieces = search_cores(asked, DEFAULT_RATES, 8, shards=12)
    assert 8 * whole < pieces < 12 * whole  # twelve smaller graphs
    made = plan(asked, replace(FOUR_H100, qdrant_nodes=6), DEFAULT_RATES)
    assert (made.shards, made.searches_per_query) == (12, 8 * 12)
    assert made.search_cores == pytest.approx(pieces)


def test_a_projection_swap_reads_no_picture_and_a_backbone_swap_does() -> None:
    swap = plan(HUNDRED_MILLION, FOUR_H100, DEFAULT_RATES).swap
    assert swap.space == "a"
    assert swap.projection_hours < swap.backbone_hours
    assert swap.backbone_hours > 1e8 / 417 / 3600  # 10 Gbit/s of 3 MB
    assert swap.ram_gb == pytest.approx(1e8 * (1280 * 4 + 128 + 240) / 1e9)


def test_a_swap_has_the_decoders_that_are_bought_and_no_more() -> None:
    objects = replace(HUNDRED_MILLION, objects=True)
    cluster = replace(FOUR_H100, network_gbit=1000, decode_cores=0)
    made = plan(objects, cluster, DEFAULT_RATES)
    as_bought = plan(objects, replace(cluster, decode_cores=made.decode_cores), DEFAULT_RATES)
    assert made.swap.backbone_hours == pytest.approx(as_bought.swap.backbone_hours)


def test_as_many_cards_are_planned_as_make_it_in_time() -> None:
    gpu = find_gpu("a100")
    cards = cards_within(HUNDRED_MILLION, gpu, DEFAULT_RATES, hours=2)
    rates = [model_rate(HUNDRED_MILLION, Cluster(gpus=number, gpu=gpu), DEFAULT_RATES) for number in (cards - 1, cards)]
    assert rates[0] * 7200 < HUNDRED_MILLION.images <= rates[1] * 7200


def test_what_is_guessed_is_called_a_guess_and_what_is_measured_is_not() -> None:
    work = of_profile(find_profile("accurate"), 1000)
    on_h100, on_4090, on_cores, given_rate = (
        " ".join(assumptions(work, cluster, DEFAULT_RATES))
        for cluster in (
            FOUR_H100,
            Cluster(gpus=1, gpu=find_gpu("rtx4090")),
            Cluster(model_cores=2),
            Cluster(gpus=1, card_rate=50),
        )
    )
    assert "a guess" in on_h100
    assert "timm" in on_h100
    assert "timm" in on_4090
    for said in (on_4090, on_cores, given_rate):
        assert "a guess" not in said
    assert "measured" in on_cores


def test_guides_that_queries_merge_are_told() -> None:
    said = " ".join(assumptions(HUNDRED_MILLION, FOUR_H100, DEFAULT_RATES))
    assert "guides are merged into one search a space" in said
    assert "are merged" not in " ".join(assumptions(replace(HUNDRED_MILLION, guides=1), FOUR_H100, DEFAULT_RATES))


def test_half_of_what_is_known_of_a_picture_gives_the_other_half_and_says_so() -> None:
    assert picture_size(3.0, 8.0) == (3.0, 8.0, ())
    megabytes, megapixels, notes = picture_size(None, 0.05)
    assert megabytes == pytest.approx(0.0125)
    assert megapixels == 0.05
    assert notes
    assert picture_size(2.0, None)[1] == pytest.approx(8.0)


def test_thumbnails_of_small_pictures_are_no_larger_than_they_are() -> None:
    assert Workload(images=1, megapixels=12).thumbnail_bytes == Workload(images=1, megapixels=1).thumbnail_bytes
    assert Workload(images=1, megapixels=0.02).thumbnail_bytes < Workload(images=1).thumbnail_bytes / 3


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
    ("text", "count"), [("100M", 10**8), ("1.5k", 1500), ("20_000", 20_000), ("2,500", 2500), ("1B", 10**9), ("1e6", 10**6)]
)
def test_numbers_of_pictures_are_read(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "0", "many", "-5", "1e6x", "12 apples", "9999999B", "1e99"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_count(text)


def test_an_unknown_card_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError) as raised:
        find_gpu("voodoo2")
    assert "h100" in raised.value.hint


@pytest.mark.parametrize(
    "wrong",
    [{"gpus": 2}, {"model_cores": 0}, {"model_cores": 2, "network_gbit": 0}, {"model_cores": 2, "qdrant_nodes": -1}],
)
def test_impossible_clusters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidRequestError):
        Cluster(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 0.0])
def test_numbers_that_are_none_are_refused(number: float) -> None:
    for name in ("megabytes", "megapixels"):
        with pytest.raises(InvalidRequestError, match=f"{name} cannot be"):
            replace(HUNDRED_MILLION, **{name: number})  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="carries nothing"):
        Cluster(model_cores=2, network_gbit=number)
    with pytest.raises(InvalidRequestError, match="time between failures"):
        replace(STEADY, hours_between_failures=0.0 if number else -1.0)
    with pytest.raises(InvalidRequestError, match="time between failures"):
        replace(STEADY, hours_between_failures=float("nan"))


STEADY = Scenario(images=256_000, workers=10, rate=100, spread=0, straggler_share=0, driver_seconds=0, start_seconds=0)


def test_equal_workers_without_accidents_are_perfectly_efficient() -> None:
    assert simulate(STEADY).efficiency == pytest.approx(1.0)


@settings(deadline=None)
@given(workers=st.integers(1, 40), slices=st.integers(1, 300), batch=st.integers(1, 500))
def test_equal_tasks_without_accidents_take_what_can_be_worked_out(workers: int, slices: int, batch: int) -> None:
    one = 2.56
    run = simulate(replace(STEADY, images=256 * slices, workers=workers, batch_slices=batch, batch_seconds=1e9))
    batches = [min(batch, slices - begun) for begun in range(0, slices, batch)]
    assert run.batches == len(batches)
    assert run.seconds == pytest.approx(sum(math.ceil(each / workers) for each in batches) * one)


def test_batches_that_are_too_small_leave_workers_idle() -> None:
    run = simulate(replace(STEADY, batch_slices=5))  # half of the workers get nothing
    assert run.efficiency == pytest.approx(0.5)
    assert run.barrier_seconds == pytest.approx(run.seconds / 2)


def test_each_trouble_costs_time() -> None:
    for trouble in (
        {"straggler_share": 0.1},
        {"hours_between_failures": 0.05},
        {"hours_between_node_failures": 0.05},
        {"driver_seconds": 1.0},
        {"start_seconds": 60.0},
    ):
        run = simulate(replace(STEADY, **trouble), seed=3)  # type: ignore[arg-type]
        assert run.seconds > simulate(STEADY).seconds * 1.01, trouble


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), workers=st.integers(1, 30), more=st.integers(2, 4))
def test_several_times_the_workers_are_never_slower(seed: int, workers: int, more: int) -> None:
    rough = replace(STEADY, images=128_000, straggler_share=0.05, spread=0.1, workers=workers)
    few, many = simulate(rough, seed=seed), simulate(replace(rough, workers=workers * more), seed=seed)
    longest = 256 / rough.rate * rough.straggler_factor * 2
    assert many.seconds <= few.seconds + longest * many.batches


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
def test_failures_three_times_as_often_are_never_faster(seed: int) -> None:
    def mean(hours: float | None) -> float:
        runs = [simulate(replace(STEADY, images=128_000, hours_between_failures=hours), seed=seed + one) for one in range(20)]
        return sum(run.seconds for run in runs) / len(runs)

    times = [mean(hours) for hours in (None, 0.15, 0.05)]
    assert times == sorted(times)


def test_a_node_takes_all_its_workers_with_it() -> None:
    fragile = replace(STEADY, hours_between_node_failures=0.02)
    alone = [simulate(replace(fragile, workers_per_node=1), seed=seed) for seed in range(40)]
    together = [simulate(replace(fragile, workers_per_node=10), seed=seed) for seed in range(40)]
    # As many workers, but ten at a time: the sum over forty runs has a standard error of eight percent.
    assert sum(run.deaths for run in together) == pytest.approx(sum(run.deaths for run in alone), rel=0.1)
    assert np.std([run.deaths for run in together]) > 2 * np.std([run.deaths for run in alone])
    assert all(run.deaths % 10 == 0 for run in together if run.given_up == 0)
    assert any(run.deaths % 10 for run in alone)


def test_workers_that_always_die_give_slices_up_and_the_job_ends() -> None:
    run = simulate(replace(STEADY, images=25_600, hours_between_failures=1e-9))
    assert run.given_up == 100
    assert run.deaths == 100 * STEADY.attempts


def test_unequal_workers_cost_the_end_of_the_batches_alone() -> None:
    run = simulate(replace(STEADY, spread=0.5), seed=3)
    assert 0 < run.seconds - STEADY.images / 1000 <= run.batches * 2.56 * 5
    assert run.tail_seconds > 0


def test_a_driver_that_is_too_slow_bounds_the_job() -> None:
    assert simulate(replace(STEADY, driver_seconds=1.0)).seconds >= 1000  # one second for each of 1,000 slices


def test_every_slice_of_a_dead_worker_is_done_again() -> None:
    run = simulate(replace(STEADY, hours_between_failures=0.02, attempts=100), seed=1)
    assert run.deaths > 10
    assert run.given_up == 0
    assert run.repeated_images > 0
    assert run.seconds > STEADY.images / 1000 + run.repeated_images / 1000


def test_small_slices_leave_a_shorter_tail() -> None:
    spread = replace(STEADY, spread=0.5, images=64_000, batch_slices=10_000, batch_seconds=1e9)
    assert simulate(replace(spread, slice_size=32)).tail_seconds < simulate(spread).tail_seconds


def test_measured_times_of_slices_take_the_place_of_assumed_ones() -> None:
    times = tuple(float(second) for second in range(1, 41))
    run = simulate(replace(STEADY, images=40 * 256, workers=2, task_seconds=times), seed=4)
    assert run.ideal_seconds == pytest.approx(sum(times) / 2)  # each once
    assert run.ideal_seconds <= run.seconds <= run.ideal_seconds + max(times)


def test_the_same_seed_simulates_the_same() -> None:
    rough = replace(STEADY, spread=0.3, straggler_share=0.1, hours_between_failures=0.1)
    assert simulate(rough, seed=5) == simulate(rough, seed=5)
    assert simulate(rough, seed=5) != simulate(rough, seed=6)


MEASURED = MachineCalibration(
    runs=((256, 10.0), (1024, 34.0)),
    fixed_seconds=2.0,
    seconds_an_image=0.03125,
    executor="processes",
    rates=replace(DEFAULT_RATES, decode=140.0, core_gmacs=33.0, sources={"core_gmacs": "measured here, one core"}),
    megabytes=0.05,
    megapixels=0.19,
)
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def test_a_measurement_is_remembered_for_its_profile_with_its_age(tmp_path: Path) -> None:
    kept = remember(tmp_path, MEASURED, profile="embedded", now=NOON)
    assert recall(tmp_path, profile="embedded") == kept
    assert recall(tmp_path, profile="fast") is None
    rates = kept.rates(NOON + timedelta(days=3))
    assert (rates.decode, rates.core_gmacs, rates.decode_megapixels) == (140.0, 33.0, 0.19)
    assert "3 days ago" in rates.source("decode")
    assert "today" in kept.rates(NOON - timedelta(days=400)).source("decode")  # a clock that went back
    assert "measure again" in kept.age(NOON + timedelta(days=200))


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"measured_at": 3}', "NaN"])
def test_a_damaged_measurement_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    remember(tmp_path, MEASURED, profile="embedded", now=NOON)
    (file,) = tmp_path.iterdir()
    file.write_text(damage)
    with pytest.raises(ConfigurationError, match=file.name) as raised:
        recall(tmp_path, profile="embedded")
    assert "--here" in raised.value.hint


def test_a_sample_never_goes_where_the_real_collection_is(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(3):
        Image.new("RGB", (32, 32), (number, 0, 0)).save(tmp_path / f"{number}.png")
    real = load_settings(
        {
            "home": tmp_path / "home",
            "catalog_url": "postgresql+psycopg://db/real",
            "index": {"embeddings": "s3://real/embeddings", "thumbnails": "s3://real/thumbnails"},
            "store": {"kind": "server"},
            "cluster": {"address": "auto"},
        }
    ).settings
    seen: list[Settings] = []

    def run(runtime: Runtime, folders: Sequence[Path]) -> IndexReport:
        seen.append(runtime.settings)
        return IndexReport("run", "default", {}, 0, 0.0)

    calibrate(real, tmp_path, run=run, sizes=(2, 4))
    assert len(seen) == 2
    for own in seen:
        assert own.catalog_url is None
        assert own.index.embeddings is None
        assert own.index.thumbnails is None
        assert own.store.kind == "edge"
        assert own.cluster.address is None
        assert own.home != real.home
        assert not own.home.exists()  # gone again
    assert not real.home.exists()


def test_a_busy_machine_is_not_taken_for_a_slow_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    Image.effect_noise((64, 64), 50).convert("RGB").save(tmp_path / "one.png")
    own = load_settings({"home": tmp_path / "home"}).settings

    def nothing(runtime: Runtime, folders: Sequence[Path]) -> IndexReport:
        return IndexReport("run", "default", {}, 0, 0.0)

    real, late = time.perf_counter, [0.0]

    def others_work() -> float:  # every look at the clock finds that a second has gone by without us
        late[0] += 1.0
        return real() + late[0]

    monkeypatch.setattr(time, "perf_counter", others_work)
    measured = calibrate(own, tmp_path, run=nothing, sizes=(1, 2))
    assert measured.rates.core_gmacs > 1.29 * 2  # by the clock: a second a batch of four, two models
    assert measured.rates.decode > 2
