"""Kinds of panels that all dashboards share, with units, legends and a sentence of explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.dashboard import DataSourceRef
from monitoring.queries import Query, by, p95, rate

SECONDS: Final = "s"
SHARE: Final = "percentunit"
A_SECOND: Final = "reqps"
COUNT: Final = "short"
BYTES: Final = "bytes"
WIDE: Final = 24
HALF: Final = 12
THIRD: Final = 8
QUARTER: Final = 6
_TALL: Final = 8
_SHORT: Final = 4
_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="$datasource")

Panel = timeseries.Panel | stat.Panel


def lines(
    title: str, *queries: Query, unit: str = COUNT, help_: str = "", span: int = HALF, stacked: bool = False
) -> timeseries.Panel:
    """Return a panel of series over time.

    Args:
        title: Of the panel.
        queries: What it shows.
        unit: Of the axis.
        help_: A sentence of how to read it.
        span: Width, of 24.
        stacked: Whether the series add up to something.
    """
    panel = (
        timeseries.Panel()
        .title(title)
        .description(help_)
        .datasource(_SOURCE)
        .unit(unit)
        .min(0)
        .span(span)
        .height(_TALL)
        .line_width(1)
        .fill_opacity(30 if stacked else 5)
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
        )
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )
    if stacked:
        panel = panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    for number, (expression, legend) in enumerate(queries):
        panel = panel.with_target(_query(number, expression, legend))
    return panel


def rates(
    title: str, metric: str, label: str, *, where: str = "", help_: str = "", span: int = HALF, stacked: bool = False
) -> timeseries.Panel:
    """Return a panel of a counter's growth per second, by one of its labels."""
    return lines(title, by(label, rate, metric, where), unit=A_SECOND, help_=help_, span=span, stacked=stacked)


def latencies(
    title: str, histogram: str, label: str, *, where: str = "", help_: str = "", span: int = HALF
) -> timeseries.Panel:
    """Return a panel of the 95th percentile of some seconds, by one of their labels."""
    return lines(f"{title}, p95", by(label, p95, histogram, where), unit=SECONDS, help_=help_, span=span)


def number(
    title: str,
    expression: str,
    *,
    unit: str = COUNT,
    help_: str = "",
    bad: Sequence[float] = (),
    lowest_is_bad: bool = False,
    span: int = QUARTER,
) -> stat.Panel:
    """Return a panel with one current number.

    Args:
        title: Of the panel.
        expression: What it shows.
        unit: Of the number.
        help_: A sentence of how to read it.
        bad: From where it is yellow, then red (upwards, or downwards).
        lowest_is_bad: Whether the bounds count downwards: it is red below the last of them.
        span: Width, of 24.
    """
    return (
        stat.Panel()
        .title(title)
        .description(help_)
        .datasource(_SOURCE)
        .unit(unit)
        .span(span)
        .height(_SHORT)
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.AREA)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(bad, lowest_is_bad=lowest_is_bad))
        .with_target(_query(0, expression, ""))
    )


def board(title: str, uid: str, *, about: str, rows: Sequence[tuple[str, Sequence[Panel]]]) -> boards.Dashboard:
    """Return a dashboard of rows, with a choice of the data source and the namespace.

    Args:
        title: As people see it.
        uid: Never changes: links use it.
        about: What it is for.
        rows: (title, panels) each.
    """
    built = (
        boards.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags(["lodestone"])
        .editable()
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .with_variable(boards.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(
            boards.QueryVariable("namespace")
            .label("Namespace")
            .datasource(_SOURCE)
            .query("label_values(lodestone_service_info, namespace)")
            .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(True)
            .all_value(".*")  # also where there is no such label
        )
    )
    for name, panels in rows:
        built = built.with_row(boards.Row(name))
        for panel in panels:
            built = built.with_panel(panel)
    return built


def as_json(dashboard_: boards.Dashboard) -> str:
    """Return a dashboard as it is committed, and as Grafana reads it."""
    return f"{JSONEncoder(sort_keys=True, indent=2).encode(dashboard_.build())}\n"


def _query(number_: int, expression: str, legend: str) -> prometheus.Dataquery:
    query = prometheus.Dataquery().ref_id(chr(ord("A") + number_)).expr(" ".join(expression.split()))
    return query.legend_format(legend) if legend else query


def _thresholds(bad: Sequence[float], *, lowest_is_bad: bool) -> boards.ThresholdsConfig:
    colours = ["red", "yellow", "green"] if lowest_is_bad else ["green", "yellow", "red"]
    bounds: list[float | None] = [None, *sorted(bad)]
    if len(bad) == 1:
        colours = ["red", "green"] if lowest_is_bad else ["green", "red"]
    steps = [dashboard.Threshold(value=bound, color=colour) for bound, colour in zip(bounds, colours, strict=False)]
    if not bad:
        steps = [dashboard.Threshold(value=None, color="text")]
    return boards.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)
