"""Metrics that the committed rules and dashboards read in PromQL, told from functions, labels and keywords."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

MONITORING = Path(__file__).resolve().parents[2] / "monitoring"
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
_BRACES = re.compile(r"\{[^{}]*\}")
_RANGES = re.compile(r"\[[^\]]*\]")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
_NAME = re.compile(r"(?<![\w.:$])([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\()?")
_WORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right", "inf", "nan"}


def metrics_of(expression: str) -> set[str]:
    """Names of the series that it selects."""
    bare = _STRINGS.sub('""', expression)
    bare = _RANGES.sub("", _GROUPING.sub("", _BRACES.sub("", bare)))
    return {name for name, call in _NAME.findall(bare) if not call and name not in _WORDS}


def rule_files() -> list[Path]:
    """The committed rules."""
    return sorted((MONITORING / "rules").glob("*.yml"))


def rules() -> Iterator[dict[str, Any]]:
    """All of them, recording and alerting."""
    for path in rule_files():
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            yield from group["rules"]


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """(dashboard, panel) of all committed dashboards."""
    for path in sorted((MONITORING / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            if panel["type"] != "row":
                yield path.stem, panel
            for inner in panel.get("panels") or []:
                yield path.stem, inner


def queries() -> list[tuple[str, str]]:
    """(where, expression) of everything that is asked of Prometheus."""
    asked = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]
    return asked + [(f"{board}: {panel['title']}", target["expr"]) for board, panel in panels() for target in panel["targets"]]


def known(whose: str) -> set[str]:
    """Series of another program, as it once exported them (monitoring/known)."""
    lines = (MONITORING / "known" / f"{whose}.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}
