"""Table of all benchmarks: short name -> module with a `BENCHMARK`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final

from benchmarks.harness import Benchmark

BENCHMARKS: Final[Mapping[str, str]] = {
    "gpu": "benchmarks.device.gpu",
    "cluster_feed": "benchmarks.indexing.cluster_feed",
    "decode": "benchmarks.indexing.decode",
    "driver_memory": "benchmarks.indexing.driver_memory",
    "export_files": "benchmarks.indexing.export_files",
    "feed": "benchmarks.indexing.feed",
    "incremental": "benchmarks.indexing.incremental",
    "index_resume": "benchmarks.indexing.index_resume",
    "index_throughput": "benchmarks.indexing.index_throughput",
    "load": "benchmarks.indexing.load",
    "load_nodes": "benchmarks.indexing.load_nodes",
    "peer_loop": "benchmarks.indexing.peer_loop",
    "planner": "benchmarks.indexing.planner",
    "unchanged": "benchmarks.indexing.unchanged",
    "composed_search": "benchmarks.query.composed_search",
    "large_collection": "benchmarks.query.large_collection",
    "outliers": "benchmarks.query.outliers",
    "query_latency": "benchmarks.query.query_latency",
    "start_up": "benchmarks.query.start_up",
    "stopping": "benchmarks.query.stopping",
    "graph_overhead": "benchmarks.service.graph_overhead",
    "graph_stages": "benchmarks.service.graph_stages",
    "serve_latency": "benchmarks.service.serve_latency",
    "search_page": "benchmarks.service.search_page",
    "service_batching": "benchmarks.service.service_batching",
    "service_disturbed": "benchmarks.service.service_disturbed",
    "service_load": "benchmarks.service.service_load",
    "service_overload": "benchmarks.service.service_overload",
    "service_peer": "benchmarks.service.service_peer",
    "service_scaling": "benchmarks.service.service_scaling",
    "caption_words": "research.studies.caption_words",
    "composed": "research.studies.composed",
    "duplicates": "research.studies.duplicates",
    "exemplars": "research.studies.exemplars",
    "gate": "research.fits.gate",
    "modality_weights": "research.studies.modality_weights",
    "presence": "research.fits.presence",
    "prior": "research.fits.prior",
    "quality": "research.fits.quality",
    "query_words": "research.studies.query_words",
    "strange_topics": "research.studies.strange_topics",
    "trust": "research.studies.trust",
}


def benchmark_named(name: str) -> Benchmark:
    """Import a benchmark's module and return its declaration.

    Raises:
        KeyError: there is no benchmark of this name.
    """
    benchmark: Benchmark = importlib.import_module(BENCHMARKS[name]).BENCHMARK
    return benchmark
