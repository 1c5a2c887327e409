"""Who waits between the stages, and when there is room for it."""

from __future__ import annotations

import io
from pathlib import Path

from tests.support.pipelines import Stand

from lodestone.indexing.slices.limits import PipelineLimits
from lodestone.indexing.slices.picture_queues import PictureQueues, ReadJob
from lodestone.indexing.slices.state import SliceState
from lodestone.indexing.tasks import RowFailure

PICTURE = 3 * 8 * 8


def queues(**limits: int) -> PictureQueues:
    return PictureQueues(PipelineLimits(**{"slices": 2, "batch_size": 4, "decoders": 2, "local_reads": 2, **limits}))


def queued(stand: Stand, waiting: PictureQueues, pictures: int) -> SliceState:
    task = stand.task(pictures)
    state = SliceState(task)
    state.begin(stand.work.plan(task))
    assert state.plan is not None
    waiting.add_reads(state, state.plan, stand.work.decoder(state.plan))
    return state


def reads(waiting: PictureQueues) -> list[ReadJob]:
    started: list[ReadJob] = []
    while (job := waiting.next_read(remote=0, local=0)) is not None:
        started.append(job)
    return started


def test_reading_stops_at_its_bytes_and_one_large_picture_passes_alone(tmp_path: Path) -> None:
    with Stand(tmp_path) as stand:
        waiting = queues(fetched_bytes=1500)
        queued(stand, waiting, 8)
        first = reads(waiting)
        assert 1 <= len(first) < 8
        assert waiting.fetched_bytes == sum(job.fetched for job in first) <= 1500
        tight = queues(fetched_bytes=10)
        queued(stand, tight, 2)
        assert len(reads(tight)) == 1
        assert tight.fetched_bytes == 10


def test_decoding_stops_at_its_bytes_at_its_threads_and_at_waiting_thumbnails(tmp_path: Path) -> None:
    with Stand(tmp_path) as stand:
        waiting = queues(decoded_bytes=2 * PICTURE, thumbnail_bytes=100)
        queued(stand, waiting, 4)
        for job in reads(waiting):
            waiting.add_content(job.places[0], b"content")
        assert waiting.next_decode(decoding=2) is None
        waiting.thumbnail_bytes = 101
        assert waiting.next_decode(decoding=0) is None
        waiting.thumbnail_bytes = 0
        assert waiting.next_decode(decoding=0) is not None
        assert waiting.next_decode(decoding=1) is not None
        assert waiting.next_decode(decoding=0) is None
        assert waiting.decoded_bytes == 2 * PICTURE


def test_a_small_batch_goes_only_to_idle_models_and_with_the_end_of_a_slice_or_for_want_of_more(tmp_path: Path) -> None:
    with Stand(tmp_path) as stand:
        waiting = queues()
        state = queued(stand, waiting, 3)
        places = [job.places[0] for job in reads(waiting)]
        for place in places[:2]:
            state.arrived += 1
            waiting.add_inputs(("mean",), place)
        assert waiting.next_batch(idle=True, starved=False) is None
        state.fail(2, RowFailure("", "", "missing", ""))
        assert waiting.next_batch(idle=False, starved=False) is None
        batch = waiting.next_batch(idle=True, starved=False)
        assert batch is not None
        assert (batch[0], len(batch[1])) == (("mean",), 2)
        other = queued(stand, waiting, 3)
        waiting.add_inputs(("mean",), reads(waiting)[0].places[0])
        assert not other.is_decoded
        starved = waiting.next_batch(idle=True, starved=True)
        assert starved is not None
        assert len(starved[1]) == 1


def test_a_failed_slice_leaves_the_queues_with_its_bytes_and_its_files(tmp_path: Path) -> None:
    with Stand(tmp_path) as stand:
        waiting = queues()
        bad, good = queued(stand, waiting, 4), queued(stand, waiting, 1)
        first = waiting.next_read(remote=0, local=0)
        second = waiting.next_read(remote=0, local=0)
        third = waiting.next_read(remote=0, local=0)
        assert first is not None
        assert second is not None
        assert third is not None
        waiting.add_content(first.places[0], b"content")
        taken = waiting.next_decode(decoding=0)
        assert taken is not None
        waiting.fetched_bytes -= taken.fetched
        waiting.add_inputs(("mean",), taken)
        file = io.BytesIO(b"content")
        waiting.add_content(second.places[0], file)
        waiting.drop(bad)
        bad.ended = True
        late = io.BytesIO(b"content")
        waiting.add_content(third.places[0], late)
        assert file.closed
        assert late.closed
        assert (waiting.fetched_bytes, waiting.decoded_bytes) == (0, 0)
        assert [job.places[0].state for job in reads(waiting)] == [good]
