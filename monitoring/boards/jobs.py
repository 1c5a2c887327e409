"""What does the dashboard of jobs show? Pictures, collections, what lags, jobs and runs, disks, the vector store."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from monitoring.panels import BYTES, SECONDS, SHARE, THIRD, WIDE, board, lines, number
from monitoring.queries import N, quantile, rate, shared, total_of


def jobs() -> builders.Dashboard:
    """Is everything found that was indexed, and does indexing go on?"""
    drift = f"lodestone:index_drift:ratio{{{N}}}"
    return board(
        "Lodestone: jobs and index",
        "lodestone-jobs",
        about="Pictures, collections, what lags, background jobs and runs, disks, the vector store.",
        rows=[
            (
                "Index",
                [
                    number("Pictures", shared("lodestone_images", where='state="active"'), help_="That can be found."),
                    number(
                        "Not loaded",
                        f"max ({shared('lodestone_slices_unloaded', 'space')})",
                        bad=[1, 100],
                        help_="Slices of the space that lags most.",
                    ),
                    number("Files that cannot be used", shared("lodestone_standing_failures")),
                    number(
                        "Since the last sync",
                        f"time() - ({shared('lodestone_last_sync_timestamp_seconds')} > 0)",
                        unit=SECONDS,
                        help_="Of the collections with catalog and Parquet, by this service.",
                    ),
                    lines("Pictures by state", (shared("lodestone_images", "state"), "{{state}}")),
                    lines(
                        "Points by space",
                        (shared("lodestone_collection_points", "space"), "{{space}}"),
                        help_="All the same, once everything is loaded.",
                    ),
                    lines("Slices not loaded", (shared("lodestone_slices_unloaded", "space"), "{{space}}"), span=THIRD),
                    lines("Difference from the catalog", (drift, "{{space}}"), unit=SHARE, span=THIRD),
                    lines("Tags to be delivered", (shared("lodestone_tag_outbox"), "pictures"), span=THIRD),
                ],
            ),
            (
                "Jobs and runs",
                [
                    lines("Background jobs", (total_of("lodestone_jobs", "state"), "{{state}}"), span=THIRD),
                    lines(
                        "Steps of jobs",
                        (rate("lodestone_job_steps_total"), "steps a second"),
                        span=THIRD,
                        help_="0 while a job runs: it is stuck.",
                    ),
                    lines(
                        "Failed jobs", (f"sum (increase(lodestone_job_failures_total{{{N}}}[1h]))", "in an hour"), span=THIRD
                    ),
                    lines("Running runs", (shared("lodestone_runs_running", "kind"), "{{kind}}")),
                    lines(
                        "Since a run's last sign of life",
                        (f"time() - (min by (kind) (lodestone_run_heartbeat_timestamp_seconds{{{N}}} > 0))", "{{kind}}"),
                        unit=SECONDS,
                    ),
                    lines(
                        "Queries still to be recorded",
                        (total_of("lodestone_records_waiting"), "waiting"),
                        (rate("lodestone_records_lost_total"), "lost a second"),
                        span=WIDE,
                    ),
                ],
            ),
            (
                "Disk and vector store",
                [
                    number(
                        "Free on the home's disk",
                        f"{shared('lodestone_disk_free_bytes')} / {shared('lodestone_disk_size_bytes')}",
                        unit=SHARE,
                        bad=[0.05, 0.25],
                        lowest_is_bad=True,
                        span=THIRD,
                    ),
                    number(
                        "Dead replicas of shards",
                        shared("collection_dead_replicas"),
                        bad=[1],
                        span=THIRD,
                        help_="Qdrant's own.",
                    ),
                    number("Nodes of the vector store", shared("cluster_peers_total"), span=THIRD, help_="Qdrant's own."),
                    lines(
                        "Free space",
                        (shared("lodestone_disk_free_bytes"), "home"),
                        (
                            f"min by (persistentvolumeclaim) (kubelet_volume_stats_available_bytes{{{N}}})",
                            "{{persistentvolumeclaim}}",
                        ),
                        unit=BYTES,
                        span=THIRD,
                    ),
                    lines(
                        "Optimizations of collections",
                        (total_of("collection_running_optimizations", "id"), "{{id}}"),
                        span=THIRD,
                        help_="Qdrant's own.",
                    ),
                    lines(
                        "Calls of the vector store, p95",
                        (quantile(0.95, "grpc_responses_duration_seconds", "endpoint"), "{{endpoint}}"),
                        unit=SECONDS,
                        span=THIRD,
                        help_="Qdrant's own.",
                    ),
                ],
            ),
        ],
    )
