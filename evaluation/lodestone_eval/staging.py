"""Staging of a benchmark's pictures in a home: links in a separate folder, captions beside them, and the usual index run.

The benchmark's folder is only read. Text files that lie beside its pictures are not indexed; the captions written beside the
links are. When a benchmark is staged again, the folder is updated, and the index run reads only new pictures.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import ImageState
from lodestone.errors import ConfigurationError, InvalidRequestError
from lodestone.indexing.progress import Progress, silent
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.sources.uris import relative_path_of
from lodestone_eval.datasets.base import EvalSet, one_line

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime

_FOLDER: Final = "evaluation"
_SIDECAR: Final = ".txt"

IndexCall = Callable[["Runtime", Path, str, Progress], IndexReport]
"""Function that indexes a folder as a corpus: (runtime, folder, corpus, progress) -> report."""


@dataclass(frozen=True, slots=True)
class IndexedSet:
    """Describes a benchmark's pictures in a home.

    Attributes:
        corpus: Name of the corpus that holds these pictures only.
        names: Image id -> picture's name, for the active pictures.
        described: Names of the pictures that have a caption or a tag in the index.
        report: Report of the index run.
    """

    corpus: str
    names: dict[str, str]
    described: frozenset[str]
    report: IndexReport


def index_set(runtime: Runtime, evalset: EvalSet, *, index: IndexCall | None = None, progress: Progress = silent) -> IndexedSet:
    """Stage and index a benchmark's pictures.

    Args:
        runtime: The opened home.
        evalset: The selected part of the benchmark.
        index: Function that indexes; None to index in this process.
        progress: Progress callback.

    Raises:
        InvalidRequestError: none of the pictures can be used.
        LodestoneError: indexing failed.
    """
    corpus = f"evaluation-{evalset.name}"
    runtime.home.prepare()
    folder = runtime.home.path / _FOLDER / evalset.name
    stage(evalset, folder)
    report = (index or _index_here)(runtime, folder, corpus, progress)
    catalog = runtime.catalog
    names = {}
    for root in catalog.roots(catalog.corpus(corpus).corpus_id):
        for image in catalog.images_of_root(root.root_id):
            if image.state is ImageState.ACTIVE:
                names[image.image_id] = Path(relative_path_of(image.uri)).as_posix()
    if not names:
        raise InvalidRequestError(
            f"{evalset.name}: none of its {len(evalset.pictures)} pictures can be used", hint="lodestone status --failures"
        )
    captions, tags = catalog.captions(names), catalog.tags(names)
    described = frozenset(name for image_id, name in names.items() if captions.get(image_id) or tags.get(image_id))
    return IndexedSet(corpus, names, described, report)


def stage(evalset: EvalSet, folder: Path) -> None:
    """Make `folder` hold a link for each picture of the set, and a text file for each picture with captions to index."""
    links = {folder / name: path.absolute() for name, path in evalset.pictures.items()}
    texts = {
        folder / f"{name}{_SIDECAR}": "".join(f"{one_line(text)}\n" for text in captions)
        for name, captions in evalset.sidecars.items()
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder, keep=links.keys() | texts.keys())
        for parent in {path.parent for path in links}:
            parent.mkdir(parents=True, exist_ok=True)
        for path, target in links.items():
            _link(path, target)
        for path, text in texts.items():
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"cannot stage pictures in {str(folder)!r}: {error.strerror}", hint="give another --home"
        ) from error


def _link(path: Path, target: Path) -> None:
    if path.is_symlink():
        if path.readlink() == target:
            return
        path.unlink()
    elif path.exists():
        path.unlink()
    try:
        path.symlink_to(target)
    except (NotImplementedError, PermissionError):  # a file system or an account without links
        shutil.copyfile(target, path)


def _clear(folder: Path, *, keep: set[Path]) -> None:
    """Remove files that an earlier staging left."""
    for parent, _, files in os.walk(folder):
        for name in files:
            path = Path(parent) / name
            if path not in keep:
                path.unlink()


def _index_here(runtime: Runtime, folder: Path, corpus: str, progress: Progress) -> IndexReport:
    from lodestone.indexing.run.index_run import index_paths

    return index_paths(runtime, IndexRequest((folder,), corpus=corpus), progress=progress)
