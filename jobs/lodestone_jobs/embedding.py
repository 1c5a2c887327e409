"""Executor that embeds an index run's slices by Ray Data, on this machine or on a cluster.

See docs/adr/0024-ray-data.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lodestone.config.cluster import ClusterSettings
from lodestone.indexing.slices.limits import slices_in_flight
from lodestone.indexing.tasks import EmbedSettings, SliceReceipt, SliceTask
from lodestone_jobs.cluster import JoinedRay
from lodestone_jobs.dataset import SliceDataset
from lodestone_jobs.embed_slices import EmbedSlices, PipelineFactory, load_pipeline
from lodestone_jobs.ray_slices import RaySlices
from lodestone_jobs.rooms import Bounds, Share
from lodestone_jobs.slice_stream import EMBEDDING, SliceStream


class RayExecutor(RaySlices[SliceTask, SliceReceipt]):
    """Embeds slices by a dataset whose actors hold their models for the whole run, as an `EmbedExecutor`.

    Args:
        settings: Settings of the workers.
        workers: Number of workers at once, on this machine only.
        cluster: Settings of the cluster to use instead, where they have an address.
        joined: The connection to that cluster, if it is joined already; this executor does not close it.
        load: Makes the pipeline of an actor.
    """

    def __init__(
        self,
        settings: EmbedSettings,
        workers: int,
        *,
        cluster: ClusterSettings | None = None,
        joined: JoinedRay | None = None,
        load: PipelineFactory = load_pipeline,
    ) -> None:
        super().__init__(workers, words=EMBEDDING, cluster=cluster, joined=joined)
        self._settings = settings if cluster is None or not cluster.address else _node_settings(settings, cluster)
        self._load = load

    def new_stream(self, share: Share, bounds: Bounds, *, patience: float) -> SliceStream[SliceTask, SliceReceipt]:
        """Return a stream over a dataset that embeds."""
        slices = slices_in_flight(self._settings, on_gpu=share.gpus > 0)
        host = SliceDataset(EmbedSlices, (self._settings, self._load), share=share, bounds=bounds, slices=slices)
        return SliceStream(host, slices=slices, patience=patience)


def _node_settings(settings: EmbedSettings, cluster: ClusterSettings) -> EmbedSettings:
    """Return the workers' settings, with the threads and the model cache of their nodes."""
    threads = max(int(cluster.cpus_per_actor), 1)
    models = Path(cluster.model_cache) if cluster.model_cache else settings.models
    return replace(settings, models=models, model_threads=threads, decode_threads=threads)
