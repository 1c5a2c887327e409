"""One slice a call, and pictures that another process has decoded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.pipelines import Stand

from lodestone.embeddings.slices import read_part
from lodestone.errors import ImageError, SourceError
from lodestone.indexing.embed.picture_inputs import PreparedPicture
from lodestone.indexing.embed.slice_embedder import EmbedSlice
from lodestone.indexing.tasks import RowFailure, SliceReceipt


def means(stand: Stand, receipt: SliceReceipt) -> list[tuple[str, list[float]]]:
    rows = read_part(stand.settings.embeddings, receipt.receipts[0]).to_pylist()
    return [(row["image_id"], row["mean"]) for row in rows]


def test_pictures_decoded_elsewhere_give_what_pictures_decoded_here_give(tmp_path: Path) -> None:
    def gone(locator: str) -> None:
        if locator.endswith("000002.jpg"):
            raise ImageError("it is not there any more", reason="missing")

    with Stand(tmp_path, on_read=gone) as stand:
        embed = EmbedSlice(stand.settings, pipeline=stand.pipeline)
        task = stand.task(6, remote=True)
        prepared = embed.prepare(task)
        assert prepared is not None
        assert [type(picture) for picture in prepared].count(PreparedPicture) == 5
        assert isinstance(prepared[2], RowFailure)
        stored = [(tmp_path / "thumbnails" / row.hash[:2] / f"{row.hash}.jpg").exists() for row in task.rows]
        assert stored == [True, True, False, True, True, True]
        reads = len(stand.files)
        stand.reader.hook = lambda locator: pytest.fail(f"{locator} was read again")
        receipt = embed(task, prepared)
        assert (receipt.error, receipt.embedded, reads) == (None, 5, 6)
        stand.reader.hook = gone
        here = embed(replace(task, fingerprint="f" * 32))
        assert means(stand, receipt) == means(stand, here)
        assert embed.prepare(task) is None  # everything is on disk


def test_pictures_that_do_not_fit_what_is_missing_are_read_again(tmp_path: Path) -> None:
    with Stand(tmp_path) as stand:
        embed = EmbedSlice(stand.settings, pipeline=stand.pipeline)
        task = stand.task(4)
        other = embed.prepare(stand.task(4))
        receipt = embed(task, other)
        assert receipt.embedded == 4
        assert [image_id for image_id, _ in means(stand, receipt)] == [row.image_id for row in task.rows]


def test_a_decoder_that_may_read_nothing_says_so(tmp_path: Path) -> None:
    def denied(_: str) -> None:
        raise ImageError("reading it is denied", reason="denied")

    with Stand(tmp_path, on_read=denied) as stand:
        embed = EmbedSlice(stand.settings, pipeline=stand.pipeline)
        with pytest.raises(SourceError, match="denied for all 3 pictures"):
            embed.prepare(stand.task(3, remote=True))
