"""What does the dashboard of the service show? Objectives, load, latency by stage, guide engines, deployments."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from monitoring.panels import A_SECOND, BYTES, SECONDS, SHARE, THIRD, WIDE, board, lines, number
from monitoring.queries import N, quantile, rate, shared, total_of


def service() -> builders.Dashboard:
    """Is the service up, fast and within its means?"""
    total = rate("lodestone_http_requests_total", where='route=~"/v1/.*"')
    return board(
        "Lodestone: service",
        "lodestone-service",
        about="Objectives, load, latency by stage, guide engines, deployments.",
        rows=[
            (
                "Objectives",
                [
                    number(
                        "Available (30 days)",
                        f"1 - avg_over_time(lodestone:availability_errors:ratio_rate1h{{{N}}}[30d])",
                        unit=SHARE,
                        bad=[0.999, 0.9995],
                        lowest_is_bad=True,
                        help_="Objective: 99.9 % without a server error.",
                    ),
                    number(
                        "First answer in 250 ms (30 days)",
                        f"1 - avg_over_time(lodestone:text_pass_errors:ratio_rate1h{{{N}}}[30d])",
                        unit=SHARE,
                        bad=[0.95, 0.97],
                        lowest_is_bad=True,
                        help_="Objective: 95 % of text passes.",
                    ),
                    number("Requests", total, unit=A_SECOND, help_="Under /v1."),
                    number(
                        "Parts that answer",
                        f"min ({shared('lodestone_part_up', 'part')})",
                        bad=[1],
                        lowest_is_bad=True,
                        help_="1: models, store and catalog answer on some replica.",
                    ),
                    lines(
                        "Budget burnt",
                        (f"lodestone:availability_errors:ratio_rate1h{{{N}}} / 0.001", "availability, 1 h"),
                        (f"lodestone:text_pass_errors:ratio_rate1h{{{N}}} / 0.05", "text pass, 1 h"),
                        help_="1: the month's budget lasts a month. From 14.4 on somebody is paged.",
                    ),
                    lines(
                        "Errors by code",
                        (rate("lodestone_errors_total", "code", 'status=~"5..",code!="not_ready"'), "{{code}}"),
                        unit=A_SECOND,
                        help_="What clients were told, inside streams too.",
                        stacked=True,
                    ),
                ],
            ),
            (
                "Load",
                [
                    lines(
                        "Requests by route",
                        (rate("lodestone_http_requests_total", "route", 'route=~"/v1/.*"'), "{{route}}"),
                        unit=A_SECOND,
                    ),
                    lines(
                        "Queries worked on and waiting",
                        (total_of("lodestone_queries_in_flight"), "worked on"),
                        (total_of("lodestone_queries_slots"), "may be worked on"),
                        (total_of("lodestone_queries_waiting"), "waiting"),
                        help_="Over all replicas.",
                    ),
                    lines(
                        "Time in the queue",
                        (quantile(0.5, "lodestone_query_wait_seconds", "priority"), "p50 {{priority}}"),
                        (quantile(0.95, "lodestone_query_wait_seconds", "priority"), "p95 {{priority}}"),
                        unit=SECONDS,
                    ),
                    lines(
                        "Refused, expired, made smaller",
                        (rate("lodestone_queries_shed_total", "reason"), "{{reason}}"),
                        unit=A_SECOND,
                        help_="overloaded, rate_limited: 429. deadline: expired waiting. text_only: without guides.",
                    ),
                    lines(
                        "Streams",
                        (total_of("lodestone_streams_open"), "open"),
                        (rate("lodestone_streams_resumed_total"), "resumed a second"),
                        (rate("lodestone_streams_cancelled_total"), "given up a second"),
                    ),
                    lines(
                        "Refused requests and clients' errors",
                        (rate("lodestone_errors_total", "code", 'status=~"4.."'), "{{code}}"),
                        unit=A_SECOND,
                    ),
                ],
            ),
            (
                "Latency",
                [
                    lines(
                        "First answer (text pass)",
                        (quantile(0.5, "lodestone_text_pass_seconds"), "p50"),
                        (quantile(0.95, "lodestone_text_pass_seconds"), "p95"),
                        (quantile(0.99, "lodestone_text_pass_seconds"), "p99"),
                        unit=SECONDS,
                        help_="From arrival, waiting included.",
                    ),
                    lines(
                        "Whole requests, p95",
                        (quantile(0.95, "lodestone_http_request_seconds", "route", 'route=~"/v1/search.*"'), "{{route}}"),
                        unit=SECONDS,
                        help_="For streams: to the last event.",
                    ),
                    lines(
                        "Stages of a query, p95",
                        (quantile(0.95, "lodestone_query_stage_seconds", "stage", 'stage!="total"'), "{{stage}}"),
                        unit=SECONDS,
                    ),
                    lines(
                        "Items of a model pass",
                        (f"{rate('lodestone_text_batch_size_sum')} / {rate('lodestone_text_batch_size_count')}", "texts"),
                        (
                            f"{rate('lodestone_picture_batch_size_sum')} / {rate('lodestone_picture_batch_size_count')}",
                            "pictures",
                        ),
                        help_="Concurrent queries share passes: it grows with load.",
                    ),
                ],
            ),
            (
                "Guide engines",
                [
                    lines(
                        "Calls by outcome",
                        (rate("lodestone_generator_calls_total", "engine, outcome"), "{{engine}} {{outcome}}"),
                        unit=A_SECOND,
                    ),
                    lines(
                        "Time of a call, p95",
                        (quantile(0.95, "lodestone_generator_seconds", "engine"), "{{engine}}"),
                        unit=SECONDS,
                    ),
                    lines(
                        "Breakers",
                        (shared("lodestone_generator_breaker", "engine"), "{{engine}}"),
                        help_="0 closed, 1 half open, 2 open.",
                        span=THIRD,
                    ),
                    lines(
                        "Cost an hour", (f"3600 * {rate('lodestone_generator_cost_total', 'engine')}", "{{engine}}"), span=THIRD
                    ),
                    lines(
                        "Guide cache",
                        (rate("lodestone_guide_cache_total", "result"), "{{result}}"),
                        unit=A_SECOND,
                        stacked=True,
                        span=THIRD,
                    ),
                ],
            ),
            (
                "Deployments (Ray Serve's own metrics)",
                [
                    lines(
                        "Running calls",
                        (total_of("ray_serve_replica_processing_queries", "deployment"), "{{deployment}}"),
                        help_="Of each deployment, over its replicas.",
                        span=THIRD,
                    ),
                    lines(
                        "Waiting calls",
                        (total_of("ray_serve_deployment_queued_queries", "deployment"), "{{deployment}}"),
                        span=THIRD,
                    ),
                    lines(
                        "Processing, p95 (ms)",
                        (quantile(0.95, "ray_serve_deployment_processing_latency_ms", "deployment"), "{{deployment}}"),
                        unit="ms",
                        span=THIRD,
                    ),
                    lines(
                        "Replicas wanted and healthy",
                        (shared("ray_serve_autoscaling_target_replicas", "deployment"), "wanted {{deployment}}"),
                        (total_of("ray_serve_deployment_replica_healthy", "deployment"), "healthy {{deployment}}"),
                    ),
                    lines(
                        "Errors at the proxy",
                        (rate("ray_serve_num_http_error_requests_total", "error_code"), "{{error_code}}"),
                        unit=A_SECOND,
                        help_="Also requests that no replica answered.",
                    ),
                    lines(
                        "Memory of Ray's processes",
                        (total_of("ray_component_rss_bytes", "Component"), "{{Component}}"),
                        unit=BYTES,
                        span=WIDE,
                    ),
                ],
            ),
        ],
    )
