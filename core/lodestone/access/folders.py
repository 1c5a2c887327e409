"""Check of the folders on the service's machine that an API key may have indexed.

The setting `serve.index_folders` names one folder for each corpus; only folders below it may be added. Pictures that are
indexed can be looked at, so without this check a key that may index could read every picture that the service can read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lodestone.access.visibility import Visibility
from lodestone.errors import ForbiddenError

ALL: Final = "*"


def check_folder(path: str, corpus: str, folders: Mapping[str, Path], visibility: Visibility) -> str:
    """Check that the caller may add the folder at `path` to `corpus`, and return the path to add.

    For a caller who is limited to a folder, that is the path below this folder, without links: whoever can exchange a link
    elsewhere on the way would otherwise choose what is indexed later.

    Args:
        path: Absolute path of the folder, as the caller sent it.
        corpus: Name of the corpus that the folder would belong to.
        folders: Maps a corpus to the folder around everything that may be added to it; `*` stands for callers who see all
            corpora.
        visibility: Visibility of the caller; a caller who sees everything may add any folder.

    Raises:
        ForbiddenError: The folder lies elsewhere. The message is the same whether the folder exists or not.
    """
    if visibility.corpora is None and visibility.all_queries:
        return path
    allowed_root = folders.get(corpus) or (folders.get(ALL) if visibility.corpora is None else None)
    if allowed_root is not None and "\0" not in path and Path(path).is_absolute():
        # Links are followed, because they may lead out of the allowed folder.
        real, allowed = Path(os.path.realpath(path)), Path(os.path.realpath(allowed_root))
        if real.is_relative_to(allowed):
            return os.path.abspath(allowed_root / real.relative_to(allowed))  # noqa: PTH100 - not resolve(): its own path is kept
    raise ForbiddenError(
        f"the folder {path[:200]!r} may not be added to the corpus {corpus!r}",
        hint="the setting serve.index_folders names the folder for each corpus; a key with the scope `admin` may add any",
        corpus=corpus,
    )
