"""What is recorded of slices does not wait for the disk, because their files make it again; everything else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from tests.support.catalogs import make_root, picture, plan_slice, receipt

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.embeddings.outcomes import PictureOutcome, SliceOutcome
from lodestone.catalog.records import AttemptState


def test_only_the_recording_of_slices_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    kinds: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, _p: Any, _x: Any, _many: bool) -> None:
        if statement.startswith("PRAGMA synchronous="):
            kinds.append(statement.partition("=")[2])

    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        _, root = make_root(catalog)
        image = picture(root, "a.jpg")
        catalog.add_images([image])
        planned = plan_slice(catalog, [image])
        run = catalog.start_run("index", root.corpus_id)
        event.listen(Engine, "before_cursor_execute", note)
        try:
            catalog.start_attempt(planned.slice_id, run.run_id)
            pictures = [PictureOutcome(image.image_id, 4, 3, "PNG")]
            outcome = SliceOutcome(
                planned.slice_id, 1, run.run_id, AttemptState.DONE, receipts=[receipt(planned)], pictures=pictures
            )
            catalog.record_outcome(outcome, sources=("xmp",))
            assert kinds == ["NORMAL", "NORMAL"]
            kinds.clear()
            catalog.begin_loading("bridge-1", [planned.slice_id])
            catalog.mark_loaded("bridge-1", [planned.slice_id])
            catalog.mark_gone([image.image_id])
            catalog.update_run(run.run_id, stage="load")
            assert set(kinds) == {"FULL"}
            assert len(kinds) == 4
        finally:
            event.remove(Engine, "before_cursor_execute", note)
