"""How do the rules get into a cluster? `python -m monitoring.kubernetes` prints them as an object of Prometheus' operator."""

from __future__ import annotations

import sys
from typing import Any

import yaml
from monitoring.build import FOLDER


def manifest() -> dict[str, Any]:
    """All rule files as one object."""
    files = sorted((FOLDER / "rules").glob("*.yml"))
    groups = [group for path in files for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "lodestone", "labels": {"app.kubernetes.io/part-of": "lodestone"}},
        "spec": {"groups": groups},
    }


if __name__ == "__main__":
    sys.stdout.write(yaml.safe_dump(manifest(), sort_keys=False, width=150))
