"""Sources of captioned pictures for training: a folder with a table, or the corpora of this home.

A folder's pictures are embedded by this call; a corpus's outputs are read from the Parquet files, without decoding a picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import Backbone, BackboneOutputs, OutputKey, Pixels
from lodestone.errors import ImageError, InvalidRequestError
from lodestone.imaging.decode import decode
from lodestone.indexing.progress import Meter, Progress, RunStage, silent
from lodestone.sources.captions import CaptionTable
from lodestone.sources.folders import FoundFile, discover

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.embeddings.stored import StoredOutputs

_BATCH: Final = 16
_NAME_WORDS: Final = 3  # longer captions are sentences
_ARTICLES: Final = frozenset({"a", "an", "the", "some", "two", "three", "my"})
_Columns = dict[OutputKey, list[NDArray[np.float16]]]


@dataclass(frozen=True, slots=True)
class CaptionedPictures:
    """Holds pictures' outputs with their captions.

    Attributes:
        outputs: Outputs of n pictures.
        texts: m captions.
        owner: (m,) row of the picture that each caption describes.
        skipped: Number of pictures with captions that could not be used.
    """

    outputs: BackboneOutputs
    texts: list[str]
    owner: NDArray[np.intp]
    skipped: int = 0


def captioned_folder(
    folder: Path,
    table: CaptionTable,
    backbones: Sequence[Backbone],
    *,
    max_decoded_bytes: int,
    threads: int = 2,
    follow_symlinks: bool = True,
    progress: Progress = silent,
) -> CaptionedPictures:
    """Embed the pictures below `folder` that `table` has captions for.

    Args:
        folder: Scanned like any indexed folder.
        table: Its `file` column names pictures inside `folder`.
        backbones: Backbones, which this call loads.
        max_decoded_bytes: A picture that needs more memory is skipped.
        threads: Number of pictures decoded at once.
        follow_symlinks: Whether to follow symbolic links, as when indexing.
        progress: Progress callback.

    Raises:
        NotFoundError: there is no such folder.
        InvalidRequestError: the table names no picture of the folder.
    """
    files = list(discover(folder, follow_symlinks=follow_symlinks))
    matching = table.with_unique_names(file.uri for file in files)
    wanted = [(file, texts) for file in files if (texts := [caption.text for caption in matching.for_uri(file.uri)])]
    if not wanted:
        raise InvalidRequestError(
            f"the captions name none of the {len(files):,} pictures in {str(folder)!r}",
            hint="the column `file` holds the path inside the folder, or the bare file name",
        )
    for backbone in backbones:
        backbone.warm_up()
    min_side = max(backbone.input_size for backbone in backbones)

    def prepare(file: FoundFile) -> dict[str, Pixels] | None:
        try:
            image = decode(file.path, min_side=min_side, max_decoded_bytes=max_decoded_bytes).image
        except ImageError:
            return None  # counted as skipped, because one bad file must not end a training run
        return {backbone.name: backbone.prepare(image) for backbone in backbones}

    meter = Meter(progress, RunStage.EMBED, total=len(wanted))
    columns: _Columns = {OutputKey(b.name, spec.name): [] for b in backbones for spec in b.outputs}
    kept: list[list[str]] = []
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            inputs = list(pool.map(prepare, (file for file, _ in batch)))
            usable = [(pixels, texts) for pixels, (_, texts) in zip(inputs, batch, strict=True) if pixels is not None]
            if usable:
                _embed([pixels for pixels, _ in usable], backbones, columns)
            kept += [texts for _, texts in usable]
            meter.add(len(batch), failures=len(batch) - len(usable))
    return _gathered(columns, kept, skipped=len(wanted) - len(kept))


def captioned_corpus(catalog: Catalog, stored: StoredOutputs, corpus_id: str | None) -> CaptionedPictures:
    """Return the stored outputs and captions of a corpus (None: of every corpus).

    Args:
        catalog: The catalog that holds captions and slices.
        stored: Reads the outputs, and decides which ones.
        corpus_id: The corpus; None for all.

    Raises:
        InvalidRequestError: no indexed picture has a caption.
        EmbeddingsDamagedError: a stored file is missing or damaged.
    """
    captions: Mapping[str, list[str]] = dict(catalog.captioned_images(corpus_id))
    columns: _Columns = {key: [] for key in stored.keys}
    kept: list[list[str]] = []
    for record in catalog.slices(corpus_id) if captions else ():
        images, outputs = stored.of_slice(record)
        rows = np.array([row for row, image in enumerate(images) if image.image_id in captions], np.intp)
        for key, matrix in outputs.items():
            columns[key].append(matrix[rows])
        kept += [captions[images[row].image_id] for row in rows]
    if not kept:
        raise InvalidRequestError(
            "no indexed picture has a caption",
            hint="index with sidecar .txt files or --captions, or give --captions and --images here",
        )
    return _gathered(columns, kept)


def with_articles(texts: Sequence[str], owner: NDArray[np.intp]) -> tuple[list[str], NDArray[np.intp]]:
    """Return the same captions, and for bare names ("owl") also the form that people search for ("an owl").

    Args:
        texts: m captions.
        owner: (m,) row of the picture that each caption describes.
    """
    bare = [i for i, text in enumerate(texts) if len(text.split()) <= _NAME_WORDS and text.split()[0].lower() not in _ARTICLES]
    with_article = [("an " if texts[i][0].lower() in "aeiou" else "a ") + texts[i] for i in bare]
    return [*texts, *with_article], np.concatenate([owner, owner[bare]])


def _embed(batch: Sequence[dict[str, Pixels]], backbones: Sequence[Backbone], columns: _Columns) -> None:
    for backbone in backbones:
        for name, rows in backbone.embed(np.stack([pixels[backbone.name] for pixels in batch])).items():
            columns[OutputKey(backbone.name, name)].append(rows)


def _gathered(columns: _Columns, captions: Sequence[list[str]], *, skipped: int = 0) -> CaptionedPictures:
    joined = {key: np.concatenate(parts) for key, parts in columns.items() if parts}
    owner = np.repeat(np.arange(len(captions), dtype=np.intp), [len(texts) for texts in captions])
    return CaptionedPictures(BackboneOutputs(joined), [text for texts in captions for text in texts], owner, skipped)
