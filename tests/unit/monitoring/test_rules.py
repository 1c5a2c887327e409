"""Rules and dashboards ask for what is there, and every alert fires, explains itself and leads to a runbook."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from monitoring import build, slo
from scripts import fetch_promtool
from tests.support.promql import MONITORING, known, metrics_of, panels, queries, rule_files, rules
from tests.support.promtool import promtool  # noqa: F401

from lodestone_cli import main
from lodestone_serve.telemetry.metric_table import TABLE

ROOT = MONITORING.parent
ALERTS = [rule for rule in rules() if "alert" in rule]
TESTED = sorted((MONITORING / "tests").glob("*.yml"))


def checks(path: Path) -> list[dict[str, Any]]:
    return [check for test in yaml.safe_load(path.read_text())["tests"] for check in test.get("alert_rule_test", [])]


def run(*command: object) -> str:
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('sum by (a, b) (rate(x_total{route=~"/v1/.*", y="up"}[5m])) / on (a) group_left () z > 0.5', {"x_total", "z"}),
        ("histogram_quantile(0.95, sum by (le) (rate(h_bucket[$__rate_interval])))", {"h_bucket"}),
        ("time() - max by (kind) (a_seconds > 0) and b:c:rate5m unless on (n) d == 1", {"a_seconds", "b:c:rate5m", "d"}),
        ("clamp_min(g offset 5m, 1e3)", {"g"}),
    ],
)
def test_names_are_read_from_expressions(expression: str, expected: set[str]) -> None:
    assert metrics_of(expression) - {"5m"} == expected


def test_every_name_is_exported_by_somebody() -> None:
    ours = {name for definition in TABLE for name in definition.series()}
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    there = ours | recorded | known("ray") | known("gpu") | known("qdrant") | known("kubernetes")
    missing = {where: metrics_of(expression) - there for where, expression in queries() if metrics_of(expression) - there}
    assert not missing
    assert all(metrics_of(expression) for _, expression in queries()), "an expression without a metric"


def test_what_is_recorded_is_used() -> None:
    used = {name for _, expression in queries() for name in metrics_of(expression)}
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    offered = {"lodestone:http_requests:rate5m", "lodestone:answers:rate5m"} | {
        f"lodestone:{kind}:p95_rate5m" for kind in ("text_pass_seconds", "query_stage_seconds")
    }
    assert recorded - used <= offered, "recorded for nobody; those offered are for people's own dashboards"


def test_facts_of_the_home_are_not_added_up_over_replicas() -> None:
    shared = {definition.name for definition in TABLE if definition.shared}
    assert shared
    for where, expression in queries():
        added = set(re.findall(r"\bsum(?: by \([^)]*\))? \(\s*(\w+)", expression))
        assert not added & shared, f"{where}: every replica reports the same"


def test_labels_that_alerts_pick_exist() -> None:
    labels = {definition.name: set(definition.labels) for definition in TABLE}
    for where, expression in queries():
        for name, braces in re.findall(r"(lodestone_\w+?)(?:_total|_bucket|_sum|_count)?\{([^}]*)\}", expression):
            if name not in labels:
                continue
            asked = set(re.findall(r"(\w+)\s*[=!]~?", braces)) - {"namespace", "le"}
            assert asked <= labels[name], where


def test_committed_files_are_what_the_code_makes() -> None:
    assert build.stale() == [], "run python -m monitoring.build"


def test_every_alert_explains_itself() -> None:
    runbook = (ROOT / "docs" / "runbooks" / "alerts.md").read_text(encoding="utf-8")
    headings = {line.removeprefix("## ").strip() for line in runbook.splitlines() if line.startswith("## ")}
    for alert in ALERTS:
        assert alert["labels"]["severity"] in {"page", "ticket"}, alert["alert"]
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}, alert["alert"]
        page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
        assert (ROOT / page).is_file()
        assert anchor == alert["alert"].lower(), "an anchor for each alert"
        assert alert["alert"] in headings, f"{alert['alert']} has no section in the runbook"
    assert headings <= {alert["alert"] for alert in ALERTS}, "the runbook knows an alert that is none"


def test_names_of_alerts_are_theirs_alone() -> None:
    burning = {objective.alert for objective in slo.OBJECTIVES}
    twice = {name for name, count in Counter(alert["alert"] for alert in ALERTS).items() if count > 1}
    assert twice == burning


def test_every_alert_is_tried_firing_and_every_file_keeping_quiet() -> None:
    fired = {check["alertname"] for path in TESTED for check in checks(path) if check["exp_alerts"]}
    quiet = {check["alertname"] for path in TESTED for check in checks(path) if not check["exp_alerts"]}
    names = {alert["alert"] for alert in ALERTS}
    assert fired == names
    # Those without a quiet moment of their own have a second series that must not fire, in the same test.
    assert len(quiet) >= len(names) * 2 // 3


def test_dashboards_hold_what_grafana_needs() -> None:
    uids = set()
    for path in sorted((MONITORING / "dashboards").glob("*.json")):
        text = path.read_text(encoding="utf-8")
        uids.add(re.search(r'"uid": "(lodestone-\w+)"', text)[1])  # type: ignore[index]
    assert uids == {"lodestone-service", "lodestone-jobs", "lodestone-quality"}
    for board, panel in panels():
        assert panel["title"], board
        assert panel["datasource"] == {"type": "prometheus", "uid": "$datasource"}, (board, panel["title"])
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEF")[: len(panel["targets"])]
        assert panel["fieldConfig"]["defaults"]["unit"], (board, panel["title"])


def test_promtool_finds_no_fault(promtool: Path) -> None:  # noqa: F811
    assert "FAILED" not in run(promtool, "check", "rules", *rule_files())


@pytest.mark.parametrize("path", TESTED, ids=lambda path: path.stem)
def test_promtool_sees_alerts_fire_and_keep_quiet(promtool: Path, path: Path) -> None:  # noqa: F811
    assert "SUCCESS" in run(promtool, "test", "rules", path)


def test_the_example_for_one_machine_is_sound(promtool: Path) -> None:  # noqa: F811
    assert "SUCCESS" in run(promtool, "check", "config", MONITORING / "prometheus.yml")


def test_alertmanager_knows_the_alerts_it_names() -> None:
    said = yaml.safe_load((MONITORING / "alertmanager.yml").read_text(encoding="utf-8"))
    matchers = [
        one
        for rule in said["inhibit_rules"]
        for side in ("source", "target")
        for one in rule[f"{side}_matchers"]
        if "alertname" in one
    ]
    names = {alert["alert"] for alert in ALERTS}
    for matcher in matchers:
        pattern = re.search(r'"(.+)"', matcher)[1]  # type: ignore[index]
        for one in pattern.split("|"):
            assert any(re.fullmatch(one, name) for name in names), matcher
    severities = {alert["labels"]["severity"] for alert in ALERTS}
    assert {re.search(r'"(.+)"', route["matchers"][0])[1] for route in said["route"]["routes"]} <= severities  # type: ignore[index]


def test_the_page_names_every_metric() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    for one in TABLE:
        name = f"{one.name}_total" if one.kind == "counter" else one.name
        labels = ", ".join(f"`{label}`" for label in one.labels)
        assert f"| `{name}` | {one.kind} | {labels} | {one.help} |" in page, name


def test_promtool_understands_the_dashboards(promtool: Path, tmp_path: Path) -> None:  # noqa: F811
    asked = [
        {"record": f"panel:{number}", "expr": target["expr"].replace("$__rate_interval", "5m").replace("$namespace", ".*")}
        for number, target in enumerate(target for _, panel in panels() for target in panel["targets"])
    ]
    written = tmp_path / "panels.yml"
    written.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": asked}]}))
    assert f"{len(asked)} rules found" in run(promtool, "check", "rules", written)


@pytest.mark.parametrize(
    ("alert", "change"),
    [
        ("LodestonePartDown", ("== 0", "== 1")),
        ("LodestoneShedding", ("> 0.01", "> 0.5")),
        ("LodestoneEngineDown", ("> 0", "> 2")),
    ],
)
def test_the_tests_notice_a_broken_alert(promtool: Path, tmp_path: Path, alert: str, change: tuple[str, str]) -> None:  # noqa: F811
    for folder in ("rules", "tests"):
        (tmp_path / folder).mkdir()
    for path in rule_files():
        data = yaml.safe_load(path.read_text())
        for group in data["groups"]:
            for rule in group["rules"]:
                if rule.get("alert") == alert:
                    assert change[0] in rule["expr"]
                    rule["expr"] = rule["expr"].replace(*change)
        (tmp_path / "rules" / path.name).write_text(yaml.safe_dump(data))
    broken = tmp_path / "tests" / "service.yml"
    whole = yaml.safe_load((MONITORING / "tests" / "service.yml").read_text())
    about = [test for test in whole["tests"] if any(check["alertname"] == alert for check in test.get("alert_rule_test", []))]
    broken.write_text(yaml.safe_dump({**whole, "tests": about}))
    done = subprocess.run([promtool, "test", "rules", broken], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode != 0
    assert alert in done.stdout + done.stderr


def test_without_debian_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fetch_promtool.PromtoolUnavailableError, match="neither promtool nor apt-get"):
        fetch_promtool.fetch(tmp_path / "cache")


def test_commands_of_the_runbook_exist() -> None:
    main._load_commands()
    runbook = (ROOT / "docs" / "runbooks" / "alerts.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`lodestone ([a-z][a-z -]*)", runbook))
    assert named
    for words in named:
        command: Any = typer.main.get_command(main.app)
        for word in words.split():
            if not hasattr(command, "commands") or word.startswith("-"):
                break
            assert word in command.commands, f"lodestone {words}"
            command = command.commands[word]
