"""`lodestone plan` answers in 80 columns and in JSON, touches no home, and refuses what contradicts itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.cli import Finished, run_here

from lodestone.capacity.calibrate import MachineCalibration
from lodestone.capacity.rates import DEFAULT_RATES
from lodestone.capacity.remembered import remember


def cli(home: Path, *arguments: str) -> Finished:
    return run_here(*arguments, home=home, COLUMNS="80")


@pytest.mark.parametrize("profile", ["embedded", "fast", "balanced", "accurate"])
def test_a_plan_fits_into_eighty_columns_and_names_what_limits(tmp_path: Path, profile: str) -> None:
    told = cli(
        tmp_path / "home", "plan", "--images", "100M", "--gpu", "h100", "--gpus", "8", "--profile", profile, "--qps", "9"
    )
    assert told.code == 0, told.err
    assert max(len(line.rstrip()) for line in told.out.splitlines()) <= 80
    assert "limited by" in told.out
    assert told.out.count("<- limits") == 1
    assert "a guess" in told.out
    assert "memory to buy" in told.out


def test_a_plan_counts_the_fused_index_and_shows_its_share(tmp_path: Path) -> None:
    options = ("--cores", "64", "--profile", "embedded")
    told = cli(tmp_path / "home", "plan", "--images", "1M", *options)
    assert "of it fused" in told.out
    assert "of it fused" not in cli(tmp_path / "home", "plan", "--images", "100M", *options).out  # only where it is asked for
    wanted = tmp_path / "wanted"
    wanted.mkdir()
    (wanted / "lodestone.toml").write_text("[compositions.default]\nfused = true\n", encoding="utf-8")
    facts = cli(wanted, "plan", "--images", "100M", *options, "--output", "json").json
    assert facts["workload"]["fused"] == {"default": {"bridge": 898, "labels": 384, "captions": 384}}
    assert facts["plan"]["fused"]["vectors_ram_gb"] > 100


def test_workers_that_wait_for_the_store_are_not_taken_for_slow_ones(tmp_path: Path) -> None:
    options = ("--gpu", "a100", "--gpus", "1000", "--network-gbit", "9999", "--output", "json")
    told = cli(tmp_path / "home", "plan", "--images", "1M", *options).json
    assert told["plan"]["bottleneck"] == "load"
    assert all(0.6 < run["efficiency"] <= 1 for run in told["simulation"])
    assert {run["batches"] for run in told["simulation"]} == {1}  # more than index.batch_slices workers are no matter


@pytest.mark.parametrize("profile", ["embedded", "accurate"])
@pytest.mark.parametrize("decoders", ["8", "64", "4096"])
def test_no_simulation_is_faster_than_its_plan(tmp_path: Path, profile: str, decoders: str) -> None:
    options = ("--gpu", "h100", "--gpus", "8", "--decode-cores", decoders, "--profile", profile, "--output", "json")
    told = cli(tmp_path / "home", "plan", "--images", "10M", "--source", "objects", "--network-gbit", "100", *options).json
    assert all(run["efficiency"] <= 1 for run in told["simulation"])


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        (("--gpu", "h100", "--gpus", "900", "--network-gbit", "900"), "limited by listing and hashing"),
        (
            ("--gpu", "h100", "--gpus", "8", "--network-gbit", "900", "--source", "objects", "--build-cores", "500"),
            "limited by the driver",
        ),
        (("--gpu", "h100", "--network-gbit", "900", "--source", "objects", "--build-cores", "500"), "requests for objects"),
        (("--gpu", "h100", "--source", "shards", "--object-requests", "20"), "requests that the object store takes"),
        (
            ("--gpu", "h100", "--network-gbit", "9999", "--source", "objects", "--build-cores", "1"),
            "limited by building graphs",
        ),
        (("--gpu", "t4", "--source", "objects"), "limited by reading"),
        (("--cores", "4"), "limited by decoding and models"),
    ],
)
def test_the_first_thing_told_is_what_to_improve(tmp_path: Path, options: tuple[str, ...], limit: str) -> None:
    assert limit in cli(tmp_path / "home", "plan", "--images", "5M", *options).out


def test_planning_makes_no_home(tmp_path: Path) -> None:
    told = cli(tmp_path / "home", "plan", "--images", "1M")
    assert told.code == 0, told.err
    assert not (tmp_path / "home").exists()


def test_machines_get_every_figure_and_its_source(tmp_path: Path) -> None:
    told = cli(tmp_path / "home", "plan", "--images", "1B", "--gpu", "l4", "--profile", "fast", "--output", "json").json
    assert told["plan"]["bottleneck"] == "models"
    assert told["plan"]["store"]["ram_to_buy_gb"] > told["plan"]["store"]["ram_gb"]
    assert told["workload"]["replication"] == 2  # as the store makes collections on several servers
    assert {model["side"] for model in told["models"].values()} == {224, 384, 448}
    assert all("timm" in model["source"] for model in told["models"].values())
    assert told["rates"]["sources"]["upsert"].startswith("measured")
    assert any(said.startswith("a guess") for said in told["assumptions"])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--gpus", "4"), "--gpus 4"),
        (("--within-hours", "4"), "--within-hours 4"),
        (("--gpu", "h100", "--cores", "3"), "--cores 3"),
        (("--gpu", "h100", "--gpus", "2", "--within-hours", "9"), "--gpus 2"),
        (("--gpu", "voodoo2"), "voodoo2"),
        (("--card-rate", "nan"), "nan"),
        (("--replication", "3", "--qdrant-nodes", "2"), "3 copies"),
        (("--node-ram-gb", "-1"), "-1 GB"),
        (("--worker-mtbf", "0"), "0.0 hours"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(tmp_path: Path, options: tuple[str, ...], named: str) -> None:
    told = cli(tmp_path / "home", "plan", "--images", "1M", *options)
    assert told.code == 2
    assert named in told.err
    assert "hint:" in told.err


def test_a_card_that_nobody_knows_is_planned_by_its_measured_rate(tmp_path: Path) -> None:
    told = cli(
        tmp_path / "home", "plan", "--images", "1M", "--gpu", "b200", "--card-rate", "50", "--gpus", "3", "--output", "json"
    ).json
    rates = {stage["stage"]: stage["images_per_second"] for stage in told["plan"]["stages"]}
    assert rates["models"] == 150
    assert not any(said.startswith("a guess") for said in told["assumptions"])


def test_what_was_measured_here_before_is_used_with_its_age(tmp_path: Path) -> None:
    home = tmp_path / "home"
    measured = MachineCalibration(((1, 1.0), (2, 2.0)), 2.0, 0.05, "processes", DEFAULT_RATES, 0.05, 0.19)
    remember(home, measured, profile="embedded", now=datetime.now(UTC) - timedelta(days=5))
    told = cli(home, "plan", "--images", "1000", "--output", "json").json
    assert told["here"]["predicted_seconds"] == pytest.approx(2 + 1000 * 0.05)
    assert "5 days ago" in told["rates"]["sources"]["decode"]
    assert told["workload"]["megapixels"] == 0.19
    other = cli(home, "plan", "--images", "1000", "--megapixels", "12", "--output", "json").json
    assert "predicted_seconds" not in other["here"]  # measured with other pictures
    graphs = cli(home, "plan", "--images", "50000", "--output", "json").json
    assert graphs["here"]["predicted_seconds"] > 2 + 50_000 * 0.05  # from store.build_threshold on


@pytest.mark.parametrize(
    ("variables", "options", "catalog", "megabytes"),
    [
        ({}, (), "sqlite", 113),
        ({"LODESTONE_CATALOG_URL": "sqlite:////tmp/elsewhere.sqlite"}, (), "sqlite", 113),
        ({"LODESTONE_CATALOG_URL": "postgresql+psycopg://db.example/lodestone"}, (), "postgresql", 170),
        ({}, ("--gpu", "h100", "--gpus", "8"), "sqlite", 113),
        ({}, ("--gpu", "h100", "--gpus", "9"), "postgresql", 170),  # two machines, which refuse SQLite
    ],
)
def test_a_plan_names_the_catalog_that_there_will_be(
    tmp_path: Path, variables: dict[str, str], options: tuple[str, ...], catalog: str, megabytes: int
) -> None:
    arguments = ("plan", "--images", "100k", *options)
    shown = run_here(*arguments, home=tmp_path / "home", **variables)
    (line,) = [line for line in shown.out.splitlines() if line.startswith("catalog")]
    assert line.split() == ["catalog", {"sqlite": "(SQLite)", "postgresql": "(PostgreSQL)"}[catalog], str(megabytes), "MB"]
    facts = run_here(*arguments, "-o", "json", home=tmp_path / "home", **variables).json
    assert (facts["cluster"]["catalog"], round(facts["plan"]["catalog_gb"] * 1000)) == (catalog, megabytes)


def test_a_plan_is_neither_folded_nor_cut_in_a_pipe(tmp_path: Path) -> None:
    told = run_here("plan", "--images", "100M", "--gpu", "h100", home=tmp_path / "home", COLUMNS="").out.splitlines()
    notes = told[told.index("Where figures are from") + 1 :]
    assert all(line[:3] in {"-  ", "!  "} for line in notes)
    assert max(map(len, notes)) > 100
