"""The dashboard of the service: objectives, load, latency by stage, guide engines, deployments."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard as builders
from monitoring.panels import A_SECOND, BYTES, SECONDS, SHARE, THIRD, WIDE, Panel, board, latencies, lines, number, rates
from monitoring.queries import N, by, mean, p95, quantile, rate, shared, total_of


def service() -> builders.Dashboard:
    """Return the dashboard that shows whether the service is up, fast and within its limits."""
    return board(
        "Lodestone: service",
        "lodestone-service",
        about="Objectives, load, latency by stage, guide engines, deployments.",
        rows=[
            ("Objectives", _objectives()),
            ("Load", _load()),
            ("Latency", _latency()),
            ("Guide engines", _engines()),
            ("Deployments (Ray Serve's own metrics)", _deployments()),
        ],
    )


def _objectives() -> Sequence[Panel]:
    unavailable = f"lodestone:availability_errors:ratio_rate1h{{{N}}}"
    slow = f"lodestone:text_pass_errors:ratio_rate1h{{{N}}}"
    return [
        number(
            "Available (30 days)",
            f"1 - avg_over_time({unavailable}[30d])",
            unit=SHARE,
            bad=[0.999, 0.9995],
            lowest_is_bad=True,
            help_="Objective: 99.9 % without a server error.",
        ),
        number(
            "First answer in 250 ms (30 days)",
            f"1 - avg_over_time({slow}[30d])",
            unit=SHARE,
            bad=[0.95, 0.97],
            lowest_is_bad=True,
            help_="Objective: 95 % of text passes.",
        ),
        number("Requests", rate("lodestone_http_requests_total", where='route=~"/v1/.*"'), unit=A_SECOND, help_="Under /v1."),
        number(
            "Parts that answer",
            f"min ({shared('lodestone_part_up', 'part')})",
            bad=[1],
            lowest_is_bad=True,
            help_="1: models, store and catalog answer on some replica.",
        ),
        lines(
            "Budget burnt",
            (f"{unavailable} / 0.001", "availability, 1 h"),
            (f"{slow} / 0.05", "text pass, 1 h"),
            help_="1: the month's budget lasts a month. From 14.4 on somebody is paged.",
        ),
        rates(
            "Errors by code",
            "lodestone_errors_total",
            "code",
            where='status=~"5..",code!="not_ready"',
            help_="What clients were told, inside streams too.",
            stacked=True,
        ),
    ]


def _load() -> Sequence[Panel]:
    waited = "lodestone_query_wait_seconds"
    return [
        rates("Requests by route", "lodestone_http_requests_total", "route", where='route=~"/v1/.*"'),
        lines(
            "Queries worked on and waiting",
            (total_of("lodestone_queries_in_flight"), "worked on"),
            (total_of("lodestone_queries_slots"), "may be worked on"),
            (total_of("lodestone_queries_waiting"), "waiting"),
            help_="Over all replicas.",
        ),
        lines(
            "Time in the queue",
            (quantile(0.5, waited, "priority"), "p50 {{priority}}"),
            (p95(waited, "priority"), "p95 {{priority}}"),
            unit=SECONDS,
        ),
        rates(
            "Refused, expired, made smaller",
            "lodestone_queries_shed_total",
            "reason",
            help_="overloaded, rate_limited: 429. deadline: expired waiting. text_only: without guides.",
        ),
        lines(
            "Streams",
            (total_of("lodestone_streams_open"), "open"),
            (rate("lodestone_streams_resumed_total"), "resumed a second"),
            (rate("lodestone_streams_cancelled_total"), "given up a second"),
        ),
        lines(
            "Processes that answer",
            (total_of("lodestone_answering_processes"), "answering"),
            (rate("lodestone_answering_processes_ended_total"), "ended a second"),
            help_="Of services on one machine (serve.processes). Those that end are replaced.",
        ),
        rates("Refused requests and clients' errors", "lodestone_errors_total", "code", where='status=~"4.."'),
    ]


def _latency() -> Sequence[Panel]:
    return [
        lines(
            "First answer (text pass)",
            *((quantile(share, "lodestone_text_pass_seconds"), f"p{100 * share:.0f}") for share in (0.5, 0.95, 0.99)),
            unit=SECONDS,
            help_="From arrival, waiting included.",
        ),
        latencies(
            "Whole requests",
            "lodestone_http_request_seconds",
            "route",
            where='route=~"/v1/search.*"',
            help_="For streams: to the last event.",
        ),
        latencies("Stages of a query", "lodestone_query_stage_seconds", "stage", where='stage!="total"'),
        lines(
            "Items of a model pass",
            (mean("lodestone_text_batch_size"), "texts"),
            (mean("lodestone_picture_batch_size"), "pictures"),
            help_="Concurrent queries share passes: it grows with load.",
        ),
    ]


def _engines() -> Sequence[Panel]:
    calls, cost = rate("lodestone_generator_calls_total", "engine, outcome"), rate("lodestone_generator_cost_total", "engine")
    return [
        lines("Calls by outcome", (calls, "{{engine}} {{outcome}}"), unit=A_SECOND),
        latencies("Time of a call", "lodestone_generator_seconds", "engine"),
        lines(
            "Breakers",
            by("engine", shared, "lodestone_generator_breaker"),
            help_="0 closed, 1 half open, 2 open.",
            span=THIRD,
        ),
        lines("Cost an hour", (f"3600 * {cost}", "{{engine}}"), span=THIRD),
        rates("Guide cache", "lodestone_guide_cache_total", "result", stacked=True, span=THIRD),
    ]


def _deployments() -> Sequence[Panel]:
    return [
        lines(
            "Running calls",
            by("deployment", total_of, "ray_serve_replica_processing_queries"),
            help_="Of each deployment, over its replicas.",
            span=THIRD,
        ),
        lines("Waiting calls", by("deployment", total_of, "ray_serve_deployment_queued_queries"), span=THIRD),
        lines(
            "Processing, p95 (ms)",
            by("deployment", p95, "ray_serve_deployment_processing_latency_ms"),
            unit="ms",
            span=THIRD,
        ),
        lines(
            "Replicas wanted and healthy",
            (shared("ray_serve_autoscaling_target_replicas", "deployment"), "wanted {{deployment}}"),
            (total_of("ray_serve_deployment_replica_healthy", "deployment"), "healthy {{deployment}}"),
        ),
        rates(
            "Errors at the proxy",
            "ray_serve_num_http_error_requests_total",
            "error_code",
            help_="Also requests that no replica answered.",
        ),
        lines("Memory of Ray's processes", by("Component", total_of, "ray_component_rss_bytes"), unit=BYTES, span=WIDE),
    ]
