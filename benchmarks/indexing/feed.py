"""How busy a fast GPU is kept by one worker whose pictures lie in an object store: everything slow is pretended.

The pipeline is the real one (`SlicePipeline`: its threads, limits, batches, hashes, Parquet files and receipts). Pretended, by
sleeping, are the GPU (so many images a second), the bucket (a wait before the first byte, a wait for each write, so many
requests in flight, so many bytes a second a stream) and decoding (so many milliseconds on so many cores). No pixel is decoded.

The busy share is the time in model passes divided by the time from the first pass to the end of the last one, as the GPU sees
it. The peer is a worker that takes one slice after the other, with four threads that each read, decode and store the thumbnail
of one picture at a time, over the same pretended GPU and bucket.

    python -m benchmarks.indexing.feed
    python -m benchmarks.indexing.feed --pictures 40000 --single
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from benchmarks.harness import Benchmark, Figure, Report
from lodestone.backbones.base import Backbone, Outputs, OutputSpec, Pixels
from lodestone.capacity.formulas import Cluster, plan
from lodestone.capacity.rates import Rates
from lodestone.capacity.workload import Workload
from lodestone.files.area import FileArea, StoredFile
from lodestone.files.beneath import Enclosure
from lodestone.files.tokens import hash_bytes
from lodestone.imaging.metadata import METADATA_VERSION
from lodestone.indexing.slices.limits import PipelineLimits
from lodestone.indexing.slices.picture_inputs import DecodedPicture, PreparedPicture
from lodestone.indexing.slices.pipeline import SlicePipeline
from lodestone.indexing.slices.preparing import Content, Decode
from lodestone.indexing.slices.state import SlicePlan
from lodestone.indexing.slices.work import SliceWork
from lodestone.indexing.stage_stats import EmbedStage, StageShare, limiting
from lodestone.indexing.tasks import META_PART, EmbedSettings, RowFailure, SliceRow, SliceTask
from lodestone.sources.locators import Inside
from lodestone.sources.reading import Reader
from lodestone.text_encoders.base import TextEncoder

PEER = "one slice after the other, 4 threads"
SHARDS, SINGLE = "pictures in tar shards", "one object a picture"
_SLICE = 256
_OLD_THREADS, _OLD_BATCH, _OLD_PICTURES = 4, 4, 64
_SHARD_PICTURES = 4096
_TAR_HEADER = 512
_NUMBER_BYTES = 8
# What the metadata of every picture say.
_FACTS: Final[dict[str, Any]] = {"width": 640, "height": 480, "format": "JPEG", "metadata_version": METADATA_VERSION}
_THUMBNAIL = bytes(13_000)


class PretendedGpu(Backbone):
    """A pretended model: a pass sleeps as long as the GPU would take, and returns zeros.

    Args:
        rate: Images a second.
        side: Pixels on a side of its input.
    """

    name = "pretended"
    outputs = (OutputSpec("features", 512),)
    version = "pretended"

    def __init__(self, rate: float, side: int) -> None:
        self.input_size = side
        self._rate = rate
        self._busy = 0.0
        self._first = self._last = 0.0
        self.pictures = 0

    def warm_up(self, *, threads: int = 0) -> None:
        """Do nothing: there is no model."""

    def prepare(self, image: Image.Image) -> Pixels:
        """Refuse: no pixel is decoded here."""
        raise NotImplementedError

    def embed(self, pixels: Pixels) -> Outputs:
        """Sleep, and return zeros."""
        started = time.perf_counter()
        self._first = self._first or started
        ends = started + len(pixels) / self._rate
        time.sleep(max(ends - time.perf_counter(), 0.0))
        self._last = time.perf_counter()
        self._busy += len(pixels) / self._rate
        self.pictures += len(pixels)
        return {"features": np.zeros((len(pixels), 512), np.float16)}

    @property
    def busy(self) -> float:
        """Return the time that the GPU needed, divided by the time from its first pass to the end of its last one."""
        return self._busy / (self._last - self._first)


class NoTexts(TextEncoder):
    """A text encoder for pictures without captions."""

    name = "pretended"
    dim = 8
    version = "pretended"

    def warm_up(self, *, threads: int = 0) -> None:
        """Do nothing: there is no model."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return zeros for every text."""
        return np.zeros((len(texts), 8), np.float32)


@dataclass(frozen=True, slots=True)
class Latency:
    """How a pretended bucket answers: seconds to the first byte and for a write, bytes a second a stream, requests at once."""

    first_byte_s: float
    write_s: float
    bytes_per_second: float
    in_flight: int


class Bucket:
    """The requests of a pretended bucket: each takes its time, and waits where too many are in flight."""

    def __init__(self, latency: Latency) -> None:
        self._latency = latency
        self._slots = threading.BoundedSemaphore(latency.in_flight)
        self._counting = threading.Lock()
        self.requests = 0

    def request(self, *, size: int = 0, write: bool = False) -> None:
        """Wait as long as a request takes that transfers so many bytes."""
        latency = self._latency
        with self._slots:
            time.sleep((latency.write_s if write else latency.first_byte_s) + size / latency.bytes_per_second)
        with self._counting:
            self.requests += 1


class PretendedArea(FileArea):
    """An area in a pretended bucket; it keeps nothing.

    Args:
        bucket: Takes the requests.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    @property
    def location(self) -> str:
        """Return a name for messages."""
        return "pretended://bucket"

    def write(self, path: str, content: bytes | pa.Buffer, *, durable: bool = True) -> None:  # noqa: ARG002
        """Wait as long as a PUT takes."""
        self._bucket.request(size=len(content), write=True)

    def read(self, path: str) -> pa.Buffer:
        """Wait as long as a GET takes that finds nothing."""
        self._bucket.request()
        raise FileNotFoundError(path)

    def size(self, path: str) -> int | None:  # noqa: ARG002
        """Return that there is no such file."""
        return None

    def names(self, folder: str = "") -> tuple[list[str], list[StoredFile]]:  # noqa: ARG002
        """Return that there are no files."""
        return [], []

    def delete(self, path: str) -> bool:  # noqa: ARG002
        """Return that there is no such file."""
        return False

    def delete_folder(self, folder: str) -> None:
        """Do nothing: there are no files."""

    def sweep(self, folder: str) -> int:  # noqa: ARG002
        """Return 0: there are no files."""
        return 0


class PretendedReader(Reader):
    """Reads pictures of a pretended bucket, which have the same content but for their numbers in front.

    Args:
        bucket: Takes the requests.
        picture: The content without its number.
    """

    def __init__(self, bucket: Bucket, picture: bytes) -> None:
        super().__init__()
        self._bucket = bucket
        self._picture = picture
        self._shard = (picture + bytes(_TAR_HEADER)) * 256

    def read(self, locator: str, *, content: str, size: int, mtime_ns: int, within: Enclosure | None = None) -> bytes:  # noqa: ARG002
        """Return a picture by one request; nothing compares its content."""
        self._bucket.request(size=size)
        return self._picture

    def read_span(self, place: Inside, size: int, *, within: Enclosure | None = None) -> bytes:  # noqa: ARG002
        """Return neighbouring pictures by one request."""
        self._bucket.request(size=size)
        span = bytearray(self._shard[:size])
        step = len(self._picture) + _TAR_HEADER
        first = int(Path(place.where).stem) * _SHARD_PICTURES + place.position // step
        for place_in_span in range(-(-size // step)):
            start = place_in_span * step
            span[start : start + _NUMBER_BYTES] = (first + place_in_span).to_bytes(_NUMBER_BYTES)
        return bytes(span)


class PretendedStages(SliceWork):
    """The real stages with pretended decoding.

    Args:
        settings: Areas of the files.
        gpu: The model.
        reader: Reads the pictures.
        decode_s: Seconds that a core takes to decode a picture.
    """

    def __init__(self, settings: EmbedSettings, gpu: PretendedGpu, reader: Reader, decode_s: float) -> None:
        super().__init__(settings, backbones=[gpu], encoder=NoTexts(), reader=reader)
        self._decode_s = decode_s
        self._input = np.zeros((gpu.input_size, gpu.input_size, 3), np.uint8)

    def decoder(self, plan: SlicePlan) -> Decode:
        """Return a function that sleeps."""

        def decode(row: SliceRow, content: Content | None) -> DecodedPicture:  # noqa: ARG001
            time.sleep(self._decode_s)
            inputs = {**dict.fromkeys(plan.batch_names, self._input), META_PART: _FACTS}
            return DecodedPicture(PreparedPicture(row, inputs), _THUMBNAIL)

        return decode


def tokens(pictures: int, content: bytes) -> list[str]:
    """Return the hash of each picture's content: the number of the picture, then what all have in common."""
    common = content[_NUMBER_BYTES:]
    return [hash_bytes(number.to_bytes(_NUMBER_BYTES) + common) for number in range(pictures)]


def tasks(hashes: Sequence[str], content: bytes, parts: Sequence[str], *, shards: bool) -> Iterator[SliceTask]:
    """Yield slices of pretended pictures, which have these hashes."""
    pictures = len(hashes)
    for start in range(0, pictures, _SLICE):
        rows = []
        for number in range(start, min(start + _SLICE, pictures)):
            path = f"s3://bucket/{number}.jpg"
            if shards:
                shard, place = divmod(number, _SHARD_PICTURES)
                path = str(Inside("tar", place * (len(content) + _TAR_HEADER), f"s3://bucket/{shard}.tar"))
            rows.append(SliceRow(f"{number:032x}", hashes[number], path, f"{number}.jpg", len(content), 1))
        yield SliceTask(uuid4().hex, "corpus", uuid4().hex, tuple(rows), tuple(parts))


def limits(options: argparse.Namespace) -> PipelineLimits:
    """Return the sizes that a worker with a GPU has whose files lie in buckets."""
    return PipelineLimits(
        slices=options.slices,
        batch_size=options.batch,
        remote_reads=256,
        decoders=options.decoders,
        writers=16,
        fetched_bytes=512 << 20,
        decoded_bytes=3 * options.batch * 3 * options.side**2,
    )


def pipeline_once(options: argparse.Namespace, *, shards: bool) -> tuple[PretendedGpu, tuple[StageShare, ...], float]:
    """Run the pipeline; return the GPU, the work of the stages, and requests a picture.

    Raises:
        SystemExit: a slice failed.
    """
    gpu, stages, bucket, content = _stand(options)
    hashes = tokens(options.pictures, content)
    pipeline = SlicePipeline(stages.settings, work=stages, limits=limits(options))
    try:
        for receipt in pipeline.run(tasks(hashes, content, pipeline.parts, shards=shards)):
            if receipt.error is not None:
                raise SystemExit(f"a slice failed: {receipt.error}")
        return gpu, pipeline.shares(), bucket.requests / options.pictures
    finally:
        pipeline.close()


def slice_by_slice(options: argparse.Namespace, *, shards: bool) -> PretendedGpu:
    """Run the peer over a few pictures; return the GPU."""
    gpu, stages, _, content = _stand(options)
    for task in tasks(tokens(_OLD_PICTURES, content), content, [part.file for part in stages.parts], shards=shards):
        plan = stages.plan(task)
        decode = stages.decoder(plan)

        def work(row: SliceRow) -> NDArray[np.uint8]:
            (fetched,) = stages.fetch([row])
            if isinstance(fetched, RowFailure):
                raise RuntimeError(f"{fetched.uri} was not read: {fetched.message}")
            decoded = decode(row, fetched)  # noqa: B023 - used within this turn of the loop
            stages.put_thumbnails([(row.hash, _THUMBNAIL)])
            return decoded.picture.inputs[gpu.name] if isinstance(decoded, DecodedPicture) else np.zeros(0, np.uint8)

        batch: list[NDArray[np.uint8]] = []
        with ThreadPoolExecutor(_OLD_THREADS) as pool:
            for picture in pool.map(work, plan.rows):
                batch.append(picture)
                if len(batch) == _OLD_BATCH:
                    gpu.embed(np.stack(batch))
                    batch = []
    return gpu


def prediction(options: argparse.Namespace, *, shards: bool) -> tuple[float, str]:
    """Return the images a second that the planner expects here, and what it says limits them."""
    megapixels = 0.19
    workload = Workload(
        options.pictures, megabytes=options.bytes / 1e6, megapixels=megapixels, spaces={}, objects=True, shards=shards
    )
    cluster = Cluster(
        gpus=1,
        card_rate=options.rate,
        decode_cores=options.decoders,
        network_gbit=options.in_flight * options.stream_mb * 8 / 1000,
        object_requests=options.in_flight,
    )
    rates = Rates(
        decode=1000 / options.decode_ms,
        decode_megapixels=megapixels,
        record=math.inf,
        upsert=math.inf,
        object_wait_s=options.read_ms / 1000,
        object_write_s=options.write_ms / 1000,
        object_mb_s=options.stream_mb,
    )
    made = plan(workload, cluster, rates)
    return made.images_per_second, made.bottleneck


def _stand(options: argparse.Namespace) -> tuple[PretendedGpu, PretendedStages, Bucket, bytes]:
    content = bytes(options.bytes)
    bucket = Bucket(Latency(options.read_ms / 1000, options.write_ms / 1000, options.stream_mb * 1e6, options.in_flight))
    area = PretendedArea(bucket)
    gpu = PretendedGpu(options.rate, options.side)
    settings = EmbedSettings((), "", Path(tempfile.gettempdir()), area, area)
    return gpu, PretendedStages(settings, gpu, PretendedReader(bucket, content), options.decode_ms / 1000), bucket, content


def measure(options: argparse.Namespace, report: Report) -> None:
    """Feed the GPU from shards, and from single objects if asked, beside the peer."""
    report.text(
        f"Pretended: a GPU of {options.rate:,.0f} images/s; a bucket of {options.read_ms:g} ms to the first byte, "
        f"{options.write_ms:g} ms a write, {options.in_flight} requests in flight; {options.decode_ms:g} ms to decode, "
        f"{options.decoders} cores. {options.pictures:,} pictures of {options.bytes / 1000:,.0f} kB in slices of {_SLICE}."
    )
    for case, shards in ((SHARDS, True), (SINGLE, False)):
        if not shards and not options.single:
            continue
        busy: dict[str, list[float]] = {"pipeline": [], "peer": []}
        for _ in range(options.rounds):
            gpu, shares, requests = pipeline_once(options, shards=shards)
            busy["pipeline"].append(gpu.busy)
            busy["peer"].append(slice_by_slice(options, shards=shards).busy)
            told = ", ".join(f"{share.stage} {share.busy:.2f}" for share in shares)
            report.progress(f"{case}: GPU busy {gpu.busy:.3f}; busy shares: {told}; the limit is {limiting(shares)}")
        predicted, bottleneck = prediction(options, shards=shards)
        report.progress(f"{case}: the planner predicts {predicted:,.0f} images/s, limited by {bottleneck}")
        measured = [share * options.rate for share in busy["pipeline"]]
        report.record("predicted / measured", [predicted / value for value in measured], case=case)
        embed = next(share for share in shares if share.stage is EmbedStage.EMBED)
        report.record("GPU busy", busy["pipeline"], case=case)
        report.record("GPU busy, one slice after the other", busy["peer"], case=case)
        report.record("images a second", embed.rate, case=case)
        report.record("requests a picture", requests, case=case)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--pictures", type=int, default=20_480)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--single", action="store_true", help="also with one object a picture")
    parser.add_argument("--rate", type=float, default=2500.0, help="images a second of the GPU")
    parser.add_argument("--read-ms", type=float, default=100.0, help="milliseconds to the first byte")
    parser.add_argument("--write-ms", type=float, default=40.0, help="milliseconds of a write")
    parser.add_argument("--stream-mb", type=float, default=100.0, help="MB a second of one stream")
    parser.add_argument("--in-flight", type=int, default=200, help="requests that the bucket takes at once")
    parser.add_argument("--bytes", type=int, default=40_000, help="bytes of a picture's file")
    parser.add_argument("--decode-ms", type=float, default=10.0, help="milliseconds that a core decodes a picture")
    parser.add_argument("--decoders", type=int, default=32, help="pretended cores that decode")
    parser.add_argument("--batch", type=int, default=256, help="pictures a model pass")
    parser.add_argument("--slices", type=int, default=16, help="slices in flight")
    parser.add_argument("--side", type=int, default=224, help="pixels on a side of the model's input")


BENCHMARK = Benchmark(
    name="feed",
    about=__doc__,
    figures=(
        Figure("GPU busy", "share", peer=PEER),
        Figure("GPU busy, one slice after the other", "share"),
        Figure("images a second", "images/s"),
        Figure("predicted / measured", "ratio", peer="the rate in the same run"),
        Figure("requests a picture", "count"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
