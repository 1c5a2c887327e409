"""Records of corpora beside their embeddings: the names and roots that Parquet files do not hold, for rebuilding a catalog.

Each corpus has one small JSON file, `<corpus_id>/corpus.json`, which every index run brings up to date.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import Corpus, Root

if TYPE_CHECKING:
    from lodestone.files.area import FileArea

FORMAT: Final = 1
FILE: Final = "corpus.json"


@dataclass(frozen=True, slots=True)
class CorpusRecord:
    """Corpus with its roots as of the last index run."""

    corpus: Corpus
    roots: tuple[Root, ...]


def write_corpus_record(area: FileArea, corpus: Corpus, roots: Sequence[Root]) -> None:
    """Write the record of a corpus if it differs from the one that is there.

    Raises:
        OutOfSpaceError: the disk is full.
        SourceError: the bucket cannot be written or read.
    """
    content = json.dumps(
        {
            "format": FORMAT,
            "corpus_id": corpus.corpus_id,
            "name": corpus.name,
            "created_at": corpus.created_at.isoformat(),
            "roots": [
                {
                    "root_id": root.root_id,
                    "name": root.name,
                    "path": root.path,
                    "kind": root.kind,
                    "enabled": root.enabled,
                    "watched": root.watched,
                    "exclude": root.exclude,
                }
                for root in roots
            ],
        },
        indent=1,
    ).encode()
    path = f"{corpus.corpus_id}/{FILE}"
    if area.size(path) == len(content):
        with suppress(FileNotFoundError):
            if bytes(area.read(path)) == content:
                return
    area.write(path, content)


def read_corpus_record(area: FileArea, corpus_id: str) -> CorpusRecord | None:
    """Return the record of a corpus; None if it is missing (older versions wrote none) or damaged."""
    try:
        facts = json.loads(bytes(area.read(f"{corpus_id}/{FILE}")))
        if int(facts["format"]) != FORMAT or facts["corpus_id"] != corpus_id:
            return None
        corpus = Corpus(corpus_id, str(facts["name"]), datetime.fromisoformat(facts["created_at"]))
        return CorpusRecord(corpus, tuple(Root(corpus_id=corpus_id, **root) for root in facts["roots"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
