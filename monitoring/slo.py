"""Service level objectives and the alerts on their error budgets; makes monitoring/rules/slo.yml.

Multi-window, multi-burn-rate alerts (Google's SRE workbook, chapter 5): a page when 2 % of a month's budget goes in an hour or
5 % in six, a ticket when 10 % goes in a day or three. A burn must show in the long window and in the short one, a twelfth of
it, so that alerts end soon after their cause does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml

_RUNBOOK: Final = "docs/runbooks/alerts.md"
_HEAD: Final = """\
# Made by `python -m monitoring.build` from monitoring/slo.py: change that.
"""


@dataclass(frozen=True, slots=True)
class Objective:
    """One service level objective.

    Attributes:
        name: In names of rules, e.g. `availability`.
        alert: Name of its alerts.
        target: Share of good events, e.g. .999.
        bad: Rate of bad events in PromQL, with `WINDOW` for the window.
        total: Rate of all events.
        summary: What is wrong when it burns.
    """

    name: str
    alert: str
    target: float
    bad: str
    total: str
    summary: str


@dataclass(frozen=True, slots=True)
class Burn:
    """An alert for a budget that is spent `factor` times too fast for a month, over both windows."""

    factor: float
    long: str
    short: str
    severity: str
    hold: str


OBJECTIVES: Final = (
    Objective(
        name="availability",
        alert="LodestoneAvailabilityBurn",
        target=0.999,
        # What an answer could not be: server errors, also inside streams that had begun. Refusals (429) are the alert
        # LodestoneShedding's; a probe that is told `not_ready` is nobody's request.
        bad='sum by (namespace) (rate(lodestone_errors_total{status=~"5..",code!="not_ready"}[WINDOW]))',
        total='sum by (namespace) (rate(lodestone_http_requests_total{route=~"/v1/.*"}[WINDOW]))',
        summary="Requests fail: {{ $value | humanizePercentage }} of them, of 0.1 % that may.",
    ),
    Objective(
        name="text_pass",
        alert="LodestoneLatencyBurn",
        target=0.95,
        bad=(
            "(sum by (namespace) (rate(lodestone_text_pass_seconds_count[WINDOW]))"
            ' - sum by (namespace) (rate(lodestone_text_pass_seconds_bucket{le="0.25"}[WINDOW])))'
        ),
        total="sum by (namespace) (rate(lodestone_text_pass_seconds_count[WINDOW]))",
        summary="First answers take longer than 250 ms: {{ $value | humanizePercentage }} of them, of 5 % that may.",
    ),
)

BURNS: Final = (
    Burn(14.4, "1h", "5m", "page", "2m"),
    Burn(6.0, "6h", "30m", "page", "15m"),
    Burn(3.0, "1d", "2h", "ticket", "1h"),
    Burn(1.0, "3d", "6h", "ticket", "3h"),
)


def rules() -> dict[str, Any]:
    """Return the rule file as data."""
    groups = []
    for objective in OBJECTIVES:
        windows = dict.fromkeys(window for burn in BURNS for window in (burn.short, burn.long))
        recorded = [_recording(objective, window) for window in windows]
        groups.append(
            {"name": f"lodestone-slo-{objective.name}", "rules": [*recorded, *(_alert(objective, one) for one in BURNS)]}
        )
    return {"groups": groups}


def text() -> str:
    """Return the rule file as it is committed."""
    return _HEAD + yaml.safe_dump(rules(), sort_keys=False, width=150)


def record_name(objective: Objective, window: str) -> str:
    """Return the name of the recorded share of bad events over a window."""
    return f"lodestone:{objective.name}_errors:ratio_rate{window}"


def _recording(objective: Objective, window: str) -> dict[str, str]:
    total = objective.total.replace("WINDOW", window)
    bad = objective.bad.replace("WINDOW", window)
    # Without a bad event in the window there may be no series of them at all: that is a share of 0, not an unknown one.
    return {"record": record_name(objective, window), "expr": f"({bad} or 0 * {total}) / ({total} > 0)"}


def _alert(objective: Objective, burn: Burn) -> dict[str, Any]:
    threshold = f"{burn.factor * (1 - objective.target):.6g}"
    return {
        "alert": objective.alert,
        "expr": (f"{record_name(objective, burn.long)} > {threshold} and {record_name(objective, burn.short)} > {threshold}"),
        "for": burn.hold,
        "labels": {"severity": burn.severity, "long": burn.long, "short": burn.short},
        "annotations": {
            "summary": objective.summary,
            "description": f"The month's budget burns {burn.factor:g} times too fast, over {burn.long} and over {burn.short}.",
            "runbook_url": f"{_RUNBOOK}#{objective.alert.lower()}",
        },
    }
