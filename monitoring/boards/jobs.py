"""The dashboard of jobs: pictures, collections, lag, jobs and runs, disks, the vector store."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from monitoring.panels import BYTES, SECONDS, SHARE, THIRD, WIDE, Panel, board, latencies, lines, number
from monitoring.queries import N, by, rate, shared, total_of

_OF_QDRANT = "Qdrant's own."


def jobs() -> builders.Dashboard:
    """Return the dashboard that shows whether indexing proceeds and everything indexed is found."""
    drift = f"lodestone:index_drift:ratio{{{N}}}"
    failed = f"sum (increase(lodestone_job_failures_total{{{N}}}[1h]))"
    silent = f"time() - (min by (kind) (lodestone_run_heartbeat_timestamp_seconds{{{N}}} > 0))"
    synced = f"time() - ({shared('lodestone_last_sync_timestamp_seconds')} > 0)"
    free = f"{shared('lodestone_disk_free_bytes')} / {shared('lodestone_disk_size_bytes')}"
    claims = f"min by (persistentvolumeclaim) (kubelet_volume_stats_available_bytes{{{N}}})"
    unloaded = f"max ({shared('lodestone_slices_unloaded', 'space')})"
    index: list[Panel] = [
        number("Pictures", shared("lodestone_images", where='state="active"'), help_="That can be found."),
        number("Not loaded", unloaded, bad=[1, 100], help_="Slices of the space that lags most."),
        number("Files that cannot be used", shared("lodestone_standing_failures")),
        number(
            "Since the last sync", synced, unit=SECONDS, help_="Of the collections with catalog and Parquet, by this service."
        ),
        lines("Pictures by state", by("state", shared, "lodestone_images")),
        lines(
            "Points by space",
            by("space", shared, "lodestone_collection_points"),
            help_="All the same, once everything is loaded.",
        ),
        lines("Slices not loaded", by("space", shared, "lodestone_slices_unloaded"), span=THIRD),
        lines("Difference from the catalog", (drift, "{{space}}"), unit=SHARE, span=THIRD),
        lines("Tags to be delivered", (shared("lodestone_tag_outbox"), "pictures"), span=THIRD),
    ]
    work: list[Panel] = [
        lines("Background jobs", by("state", total_of, "lodestone_jobs"), span=THIRD),
        lines(
            "Steps of jobs",
            (rate("lodestone_job_steps_total"), "steps a second"),
            span=THIRD,
            help_="0 while a job runs: it is stuck.",
        ),
        lines("Failed jobs", (failed, "in an hour"), span=THIRD),
        lines("Running runs", by("kind", shared, "lodestone_runs_running")),
        lines("Since a run's last sign of life", (silent, "{{kind}}"), unit=SECONDS),
        lines(
            "Queries still to be recorded",
            (total_of("lodestone_records_waiting"), "waiting"),
            (rate("lodestone_records_lost_total"), "lost a second"),
            span=WIDE,
        ),
    ]
    runs: list[Panel] = [
        lines(
            "Pictures a second",
            by("stage", shared, "lodestone_run_rate"),
            help_="By stage, since the run began; embed, too, of late. Load: points.",
        ),
        lines(
            "Busy share",
            by("stage", shared, "lodestone_run_stage_busy"),
            unit=SHARE,
            help_="The busiest stage is what the others wait for.",
        ),
        lines("What limits", by("stage", shared, "lodestone_run_limited"), span=THIRD, help_="1: the others wait for it."),
        lines("Pictures waiting", by("stage", shared, "lodestone_run_stage_waiting"), span=THIRD, help_="For each stage."),
        lines("Time left", by("kind", shared, "lodestone_run_left_seconds"), unit=SECONDS, span=THIRD, help_="Of the stage."),
        lines(
            "GPUs busy",
            by("gpu", shared, "lodestone_run_gpu_busy"),
            (f"avg by (instance, GpuIndex) (ray_node_gpus_utilization{{{N}}}) / 100", "{{instance}} {{GpuIndex}}"),
            (f"avg by (Hostname, gpu) (DCGM_FI_DEV_GPU_UTIL{{{N}}}) / 100", "{{Hostname}} {{gpu}}"),
            unit=SHARE,
            help_="Of the driver's machine by NVML; of all nodes as Ray and NVIDIA's DCGM exporter tell.",
        ),
        lines(
            "GPU memory used",
            by("gpu", shared, "lodestone_run_gpu_memory_bytes"),
            (f"avg by (instance, GpuIndex) (ray_node_gram_used{{{N}}}) * 1048576", "{{instance}} {{GpuIndex}}"),
            (f"avg by (Hostname, gpu) (DCGM_FI_DEV_FB_USED{{{N}}}) * 1048576", "{{Hostname}} {{gpu}}"),
            unit=BYTES,
        ),
    ]
    store: list[Panel] = [
        number("Free on the home's disk", free, unit=SHARE, bad=[0.05, 0.25], lowest_is_bad=True, span=THIRD),
        number("Dead replicas of shards", shared("collection_dead_replicas"), bad=[1], span=THIRD, help_=_OF_QDRANT),
        number("Nodes of the vector store", shared("cluster_peers_total"), span=THIRD, help_=_OF_QDRANT),
        lines(
            "Free space",
            (shared("lodestone_disk_free_bytes"), "home"),
            (claims, "{{persistentvolumeclaim}}"),
            unit=BYTES,
            span=THIRD,
        ),
        lines(
            "Optimizations of collections",
            by("id", total_of, "collection_running_optimizations"),
            span=THIRD,
            help_=_OF_QDRANT,
        ),
        latencies("Calls of the vector store", "grpc_responses_duration_seconds", "endpoint", span=THIRD, help_=_OF_QDRANT),
    ]
    return board(
        "Lodestone: jobs and index",
        "lodestone-jobs",
        about="Pictures, collections, what lags, background jobs and runs, disks, the vector store.",
        rows=[("Index", index), ("Index runs", runs), ("Jobs and runs", work), ("Disk and vector store", store)],
    )
