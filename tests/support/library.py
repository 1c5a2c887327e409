"""A folder of pictures that is entered in a catalog again and again, and what becomes of each picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState, RunState
from lodestone.files.beneath import Boundaries
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import Meter, RunStage, silent
from lodestone.indexing.scan.caption_changes import Recaptioner
from lodestone.indexing.scan.changes import ChangeFinder
from lodestone.indexing.scan.mounts import Mounts
from lodestone.indexing.scan.scan_scopes import examine, scopes_of


@dataclass
class Library:
    """A folder of pictures, and a catalog that it is entered in without embedding anything."""

    catalog: Catalog
    folder: Path
    record: Path | None = None
    counts: dict[str, int] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def look(self, *folders: Path) -> dict[str, str]:
        """Enter what is there; name -> the name that its picture had at first, or "new"."""
        corpus = self.catalog.ensure_corpus("c")
        run = self.catalog.start_run("index", corpus.corpus_id)
        candidates, _ = examine(folders or [self.folder], boundaries=Boundaries())
        scopes = [scope for one in candidates for scope in scopes_of(one, self.catalog, corpus, boundaries=Boundaries())[0]]
        finder = ChangeFinder(
            self.catalog, run.run_id, Recaptioner(self.catalog, "captions"), Faults(), mounts=Mounts(self.record)
        )
        finder.update(scopes, Meter(silent, RunStage.DISCOVER), lambda _: None)
        self.catalog.finish_run(run.run_id, RunState.DONE)
        self.away = dict(finder.changes.away)
        self.counts = {kind: count for kind, count in finder.changes.counts.items() if count}
        if not self.names:
            self.names = {image.image_id: image.uri.removesuffix(".jpg") for image in self.images().values()}
        return {uri.removesuffix(".jpg"): self.names.get(image.image_id, "new") for uri, image in self.images().items()}

    def images(self) -> dict[str, ImageRecord]:
        found = (i for root in self.catalog.roots() for i in self.catalog.images_of_root(root.root_id))
        return {image.uri: image for image in found if image.state is not ImageState.GONE}

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.jpg"

    def move(self, source: str, target: str) -> None:
        self.path(target).parent.mkdir(exist_ok=True)
        self.path(source).replace(self.path(target))

    def write(self, name: str, content: bytes) -> None:
        self.path(name).write_bytes(content)
