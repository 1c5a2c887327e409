"""Corpus that a run is meant for whose command names none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lodestone.catalog.reading import CatalogReader
from lodestone_cli.stopping import DEFAULT_CORPUS


def corpus_meant(catalog: CatalogReader, paths: Sequence[Path | str]) -> str:
    """Return the name of the corpus that already has all of these folders; `default` where none or several have them.

    So a corpus that was renamed, or that a folder was indexed under by name, goes on, and nothing is indexed twice.

    Args:
        catalog: Knows corpora and their folders.
        paths: Files and folders of this machine, and addresses; none to go on with a run.
    """
    names = {corpus.corpus_id: corpus.name for corpus in catalog.corpora(limit=1000)}
    if paths:
        roots = catalog.roots()
        having = [{names.get(root.corpus_id) for root in roots if _holds(root.path, path)} for path in paths]
        meant = set.intersection(*having) - {None}
    else:
        meant = set(names.values())
    (only,) = meant if len(meant) == 1 else (DEFAULT_CORPUS,)
    return only or DEFAULT_CORPUS


def _holds(root: str, path: Path | str) -> bool:
    if isinstance(path, str):  # an address
        return path == root
    return Path(os.path.abspath(path)).is_relative_to(root)  # noqa: PTH100 - links stay
