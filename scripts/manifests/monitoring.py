"""Alert rules for a Prometheus operator: one PrometheusRule, made of monitoring/rules."""

from __future__ import annotations

from pathlib import Path

import yaml
from scripts.manifests.overlays import K8S, ROOT

RULES = ROOT / "monitoring" / "rules"
PATH = K8S / "components" / "monitoring" / "rules.yaml"
_HEADER = "# Made of monitoring/rules: do not edit, run `python -m scripts.check_manifests --write`.\n"


def wanted(rules: Path = RULES) -> str:
    """Return the object with every group of every file, in the order of the files' names."""
    files = sorted([*rules.glob("*.yml"), *rules.glob("*.yaml")])
    groups = [group for file in files for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "lodestone"},
        "spec": {"groups": groups},
    }
    return _HEADER + yaml.safe_dump(rule, sort_keys=False, allow_unicode=True, width=120)


def faults() -> list[str]:
    """Return what is wrong with the committed object."""
    kept = PATH.read_text(encoding="utf-8") if PATH.exists() else ""
    return (
        [] if kept == wanted() else ["rules.yaml is not what monitoring/rules says: python -m scripts.check_manifests --write"]
    )
