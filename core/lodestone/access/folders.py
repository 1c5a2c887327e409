"""Which folders of the service's machine may a key have indexed? Those below the folder that the settings name for its corpus.

What is indexed can be looked at: without this, whoever may index could read every picture that the service can.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lodestone.access.visibility import Visibility
from lodestone.errors import ForbiddenError

ALL: Final = "*"


def check_folder(path: str, corpus: str, folders: Mapping[str, Path], visibility: Visibility) -> None:
    """Return when somebody may add the folder at `path` to `corpus`.

    Args:
        path: As it was sent.
        corpus: Name of the corpus that it would belong to.
        folders: Corpus to the folder around everything that may be added to it; `*`: for those who see all corpora.
        visibility: Of whoever asks; those who see everything may add anything.

    Raises:
        ForbiddenError: it lies elsewhere. The same is said whether it is there or not.
    """
    if visibility.corpora is None and visibility.all_queries:
        return
    around = folders.get(corpus) or (folders.get(ALL) if visibility.corpora is None else None)
    if around is not None and "\0" not in path and Path(path).is_absolute():
        real, allowed = Path(os.path.realpath(path)), Path(os.path.realpath(around))  # links are followed: they lead out
        if real.is_relative_to(allowed):
            return
    raise ForbiddenError(
        f"the folder {path[:200]!r} may not be added to the corpus {corpus!r}",
        hint="the setting serve.index_folders names the folder for each corpus; a key with the scope `admin` may add any",
        corpus=corpus,
    )
