"""Rates of an object store's part in an index run: requests under way, divided by the time of one.

A worker has many requests under way while it decodes and embeds, so waiting for the store takes no core's time
(docs/adr/0013-slices-in-flight.md).
"""

from __future__ import annotations

from math import inf
from typing import Final

from lodestone.capacity.rates import Rates
from lodestone.capacity.workload import Workload

GPU_READS: Final = 256  # requests for pictures that a worker with a card has under way
CPU_READS: Final = 128
WRITES: Final = 16  # slices whose files a worker writes at once, each one after the other
_BYTES_A_FLOAT: Final = 2
_OTHER_FILES: Final = 3  # of a slice, besides one for each model: its thumbnails, captions and metadata
JOINED_PICTURES: Final = 64  # neighbours in a shard that one request reads, at most
JOINED_MB: Final = 4.194304  # 4 MiB


def pictures_a_read(workload: Workload) -> int:
    """Return how many pictures one request reads: neighbours in a shard, or a single object."""
    return min(JOINED_PICTURES, max(int(JOINED_MB / workload.megabytes), 1)) if workload.shards else 1


def read_seconds(workload: Workload, rates: Rates) -> float:
    """Return the seconds of a request's time that reading one picture takes."""
    pictures = pictures_a_read(workload)
    return rates.object_wait_s / pictures + workload.megabytes / rates.object_mb_s


def writes_a_picture(workload: Workload) -> float:
    """Return how many objects are written a picture: each file of a slice is one, and holds all pictures of the slice."""
    from lodestone.indexing.embed.slicing import slice_rows

    return (len(workload.models) + _OTHER_FILES) / slice_rows(0, workload.images, in_bucket=True)


def write_seconds(workload: Workload, rates: Rates) -> float:
    """Return the seconds of a request's time that writing one picture's share of its slice's files takes."""
    megabytes = (workload.thumbnail_bytes + _BYTES_A_FLOAT * workload.stored) / 1e6
    return rates.object_write_s * writes_a_picture(workload) + megabytes / rates.object_mb_s


def fetch_rate(workload: Workload, rates: Rates, *, workers: int, cards: bool) -> float:
    """Return how many pictures a second the workers' requests bring.

    Args:
        workload: What is read.
        rates: Times of requests.
        workers: Workers that read.
        cards: Whether each has a card, and so more requests under way.
    """
    return workers * (GPU_READS if cards else CPU_READS) / read_seconds(workload, rates)


def write_rate(workload: Workload, rates: Rates, *, workers: int) -> float:
    """Return for how many pictures a second the workers write the files of slices."""
    return workers * WRITES / write_seconds(workload, rates)


def request_rate(workload: Workload, rates: Rates, *, at_once: int) -> float:
    """Return how many pictures a second the store allows that takes so many requests at once; 0 for no limit."""
    return at_once / (read_seconds(workload, rates) + write_seconds(workload, rates)) if at_once else inf
