"""Embedding of one slice a call, by the same stages as the pipeline that has several in flight.

It is for workers that are handed one slice at a time, and for those whose pictures another process decodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

from lodestone.indexing.embed.picture_inputs import DecodedPicture, PreparedPicture, require_some_readable
from lodestone.indexing.embed.slice_pipeline import SlicePipeline
from lodestone.indexing.embed.slice_state import SlicePlan
from lodestone.indexing.tasks import (
    Advance,
    EmbedSettings,
    RowFailure,
    SliceParts,
    SliceProgressCallback,
    SliceReceipt,
    SliceTask,
    ignore_progress,
)
from lodestone.sources.joined import read_groups


class EmbedSlice:
    """Embeds one slice per call. Light to construct; `warm_up` loads the models once.

    Args:
        settings: Models, folders and sizes.
        pipeline: Its stages; None for those of the settings.
    """

    def __init__(self, settings: EmbedSettings, *, pipeline: SlicePipeline | None = None) -> None:
        self._pipeline = pipeline or SlicePipeline(settings)

    @property
    def parts(self) -> SliceParts:
        """Return the names of the parts that a complete slice has."""
        return self._pipeline.parts

    def warm_up(self) -> None:
        """Load the image models. The text encoder is loaded at the first caption.

        Raises:
            ModelUnavailableError: a model's package is not installed.
        """
        self._pipeline.warm_up()

    def close(self) -> None:
        """Stop all threads. Idempotent."""
        self._pipeline.close()

    def prepare(self, task: SliceTask) -> list[PreparedPicture | RowFailure] | None:
        """Only read and decode the task's pictures, for models in another process; return None where no pixel is needed.

        Needs no loaded model.
        """
        stages = self._pipeline.stages
        plan = stages.plan(task)
        if not plan.reads:
            return None
        pictures: list[PreparedPicture | RowFailure | None] = [None] * len(plan.rows)
        for number, picture in self._decoded(plan, isolate=task.isolate):
            pictures[number] = picture
        complete = [picture for picture in pictures if picture is not None]
        failures = [picture for picture in complete if isinstance(picture, RowFailure)]
        require_some_readable(failures, len(plan.rows), stages.reader)
        return complete

    def __call__(
        self,
        task: SliceTask,
        prepared: Sequence[PreparedPicture | RowFailure] | None = None,
        *,
        report_progress: SliceProgressCallback = ignore_progress,
    ) -> SliceReceipt:
        """Write every part that the task asks for.

        An error that ends the work as a whole (no space left, say) is returned inside the receipt, with what was finished
        before it.

        Args:
            task: The slice and its missing parts.
            prepared: What `prepare` returned for the task, here or in another process; None to read the pictures here.
            report_progress: Called after each batch of pictures.
        """
        with self._pipeline.flow() as flow:
            flow.admit(task, prepared)
            while True:
                event = flow.take()
                if isinstance(event, SliceReceipt):
                    return event
                if isinstance(event, Advance):
                    report_progress(event.slice_id, event.pictures)

    def _decoded(self, plan: SlicePlan, *, isolate: bool) -> Iterator[tuple[int, PreparedPicture | RowFailure]]:
        """Yield the number and the result of each picture, as they are done; thumbnails are stored."""
        stages = self._pipeline.stages
        with closing(stages.isolated()) as child:
            decode = partial(child.decode, backbones=plan.names) if isolate else stages.decoder(plan)

            def work(places: Sequence[int]) -> list[tuple[int, PreparedPicture | RowFailure]]:
                rows = [plan.rows[place] for place in places]
                results: list[tuple[int, PreparedPicture | RowFailure]] = []
                for place, row, content in zip(places, rows, stages.fetch(rows), strict=True):
                    result = content if isinstance(content, RowFailure) else decode(row, content)
                    if isinstance(result, DecodedPicture) and result.thumbnail is not None:
                        stages.put_thumbnails([(row.hash, result.thumbnail)])
                    results.append((place, result.picture if isinstance(result, DecodedPicture) else result))
                return results

            with ThreadPoolExecutor(self._pipeline.limits.decoders, thread_name_prefix="decode") as pool:
                for results in pool.map(work, [group.places for group in read_groups(plan.rows)]):
                    yield from results
