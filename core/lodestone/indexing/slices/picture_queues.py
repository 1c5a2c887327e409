"""Queues of pictures between the stages, with the bytes that they hold: who waits, and whether the next stage has room for it.

Not thread-safe: the flow (flow.py) holds a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lodestone.indexing.slices.limits import PipelineLimits
from lodestone.indexing.slices.preparing import Content, Decode
from lodestone.indexing.slices.state import SlicePlan, SliceState
from lodestone.indexing.stage_stats import EmbedStage
from lodestone.indexing.tasks import SliceRow
from lodestone.sources.joined import read_groups


@dataclass(slots=True, eq=False)
class QueuedPicture:
    """A picture on its way.

    Attributes:
        state: Its slice.
        number: Its number among the rows of the slice's plan.
        row: The planned row.
        fetched: Bytes that its file is counted with.
        decoded: Bytes that its model inputs are counted with.
        decode: Function that decodes it.
        content: What was read of it and waits to be decoded.
    """

    state: SliceState
    number: int
    row: SliceRow
    fetched: int
    decoded: int
    decode: Decode
    content: Content | None = None

    def close(self) -> None:
        """Close the content if it is an open file."""
        if self.content is not None and not isinstance(self.content, bytes):
            self.content.close()
        self.content = None


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Pictures of one slice that are read together; `remote` says whether from an object store."""

    places: tuple[QueuedPicture, ...]
    remote: bool

    @property
    def fetched(self) -> int:
        """Return the bytes that the pictures' files are counted with."""
        return sum(place.fetched for place in self.places)


class PictureQueues:
    """Pictures that wait to be read, decoded or embedded, and the bytes of those that are on their way.

    Args:
        limits: Sizes of the stages.

    Attributes:
        fetched_bytes: Bytes of files that are being read, wait, or are being decoded.
        decoded_bytes: Bytes of model inputs that are being made, wait, or are in the models.
        thumbnail_bytes: Bytes of thumbnails that wait to be written.
    """

    def __init__(self, limits: PipelineLimits) -> None:
        self._limits = limits
        self.fetched_bytes = self.decoded_bytes = self.thumbnail_bytes = 0
        self._reads: deque[ReadJob] = deque()
        self._contents: deque[QueuedPicture] = deque()
        self._inputs: dict[tuple[str, ...], deque[QueuedPicture]] = {}

    def add_reads(self, state: SliceState, plan: SlicePlan, decode: Decode) -> None:
        """Queue all pictures of a slice to be read."""
        decoded = sum(part.resources.prepared_bytes for part in plan.batched)
        for group in read_groups(plan.rows):
            places = (
                QueuedPicture(
                    state, number, plan.rows[number], min(plan.rows[number].size, self._limits.fetched_bytes), decoded, decode
                )
                for number in group.places
            )
            self._reads.append(ReadJob(tuple(places), group.remote))

    def next_read(self, *, remote: int, local: int) -> ReadJob | None:
        """Return the pictures to read next, counted as fetched; None when nothing waits or there is no room.

        Args:
            remote: Reads from object stores that are under way.
            local: Reads from disk that are under way.
        """
        if not self._reads:
            return None
        job = self._reads[0]
        if (remote >= self._limits.remote_reads) if job.remote else (local >= self._limits.local_reads):
            return None
        if self.fetched_bytes and self.fetched_bytes + job.fetched > self._limits.fetched_bytes:
            return None
        self._reads.popleft()
        self.fetched_bytes += job.fetched
        return job

    def add_content(self, place: QueuedPicture, content: Content) -> None:
        """Queue a picture that was read; that of a slice which has ended is dropped."""
        place.content = content
        if place.state.ended:
            self.fetched_bytes -= place.fetched
            place.close()
        else:
            self._contents.append(place)

    def next_decode(self, *, decoding: int) -> QueuedPicture | None:
        """Return the picture to decode next, counted as decoded; None when nothing waits or there is no room."""
        if not self._contents or decoding >= self._limits.decoders or self.thumbnail_bytes > self._limits.thumbnail_bytes:
            return None
        place = self._contents[0]
        if self.decoded_bytes and self.decoded_bytes + place.decoded > self._limits.decoded_bytes:
            return None
        self.decoded_bytes += place.decoded
        return self._contents.popleft()

    def add_inputs(self, names: tuple[str, ...], place: QueuedPicture) -> None:
        """Queue a decoded picture for the models of these names."""
        self._inputs.setdefault(names, deque()).append(place)

    def next_batch(self, *, idle: bool, starved: bool) -> tuple[tuple[str, ...], Sequence[QueuedPicture]] | None:
        """Return the names of models and the pictures of a batch for them, of one or several slices; None for none.

        A batch that is not full goes to idle models when a slice waits for nothing else, or when nothing is under way that
        could fill it. So neither a stalled read of another slice nor a limit of bytes below a batch holds up the work.

        Args:
            idle: Whether the models have nothing to do.
            starved: Whether besides nothing is being read or decoded.
        """
        names = max(self._inputs, key=lambda names: len(self._inputs[names]), default=None)
        if names is not None and len(self._inputs[names]) < self._limits.batch_size and not starved:
            names = next((names for names, ready in self._inputs.items() if idle and _has_last(ready)), None)
        if names is None:
            return None
        ready = self._inputs[names]
        batch = [ready.popleft() for _ in range(min(len(ready), self._limits.batch_size))]
        if not ready:
            del self._inputs[names]
        return names, batch

    def drop(self, state: SliceState) -> None:
        """Remove all pictures of a slice that has failed."""
        self._reads = deque(job for job in self._reads if job.places[0].state is not state)
        for place in self._contents:
            if place.state is state:
                self.fetched_bytes -= place.fetched
                place.close()
        self._contents = deque(place for place in self._contents if place.state is not state)
        for names, ready in list(self._inputs.items()):
            kept = deque(place for place in ready if place.state is not state)
            self.decoded_bytes -= sum(place.decoded for place in ready if place.state is state)
            if kept:
                self._inputs[names] = kept
            else:
                del self._inputs[names]

    def waiting(self) -> dict[EmbedStage, int]:
        """Return how many pictures wait for each stage."""
        return {
            EmbedStage.FETCH: sum(len(job.places) for job in self._reads),
            EmbedStage.DECODE: len(self._contents),
            EmbedStage.EMBED: sum(map(len, self._inputs.values())),
        }

    def clear(self) -> None:
        """Remove everything that waits."""
        for place in self._contents:
            place.close()
        self._reads.clear()
        self._contents.clear()
        self._inputs.clear()


def _has_last(ready: Iterable[QueuedPicture]) -> bool:
    """Return whether the last pictures of a slice are among those that wait for the models."""
    return any(place.state.is_decoded for place in ready)
