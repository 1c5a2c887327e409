"""Guide cache: guides drawn before are kept on disk with a small picture and their vectors, and used again.

A guide is found by (prompt, engine, version, model, seed, number, size): an *exact* hit. With a threshold, guides of another
prompt with a similar query vector are used too: a *semantic* hit, which records the other prompt.

A picture is reduced and encoded when it is kept, and `keep` returns the pixels of that encoding: a guide has the same pixels on
the day it is drawn and on every day it is found. So its vectors are the same whether they were stored or are computed later for
a new space.

Each guide is one file, written under another name and renamed, so that a killed process leaves no partial file; several
processes may share the folder. A process that adds to it removes the least recently used guides first when it grows too large.
A file that cannot be read is removed and counted. All methods block and are thread-safe.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from lodestone.errors import ImageError
from lodestone.generators.base import Guide
from lodestone.generators.cache_files import (
    EDITED,
    SUFFIX,
    TEMPORARY,
    CachedGuide,
    UnreadableEntryError,
    encode_entry,
    read_entry,
    write_whole,
)
from lodestone.generators.cache_keys import GuideKey
from lodestone.generators.pictures import kept_picture, pixels_of

_log = logging.getLogger(__name__)

PICTURE_KEY: Final = "picture"  # key in a guide's provenance; its value is the argument of `picture`
_GUIDE, _QUERY = SUFFIX, ".query"
_KEY: Final = re.compile(r"[0-9a-f]{32}-\d{1,9}")
_LOCK_S: Final = 5.0
_STALE_S: Final = 600.0  # a temporary file this old was left by a crashed process
_ROOM: Final = 0.9  # share of the limit that is filled after clearing, so that not every new guide clears again

Vector = NDArray[np.float32]
Vectors = Mapping[str, Vector]


class GuideCache:
    """Cached guides in one folder.

    Args:
        folder: Folder of the files, made on first use.
        limit_bytes: Largest size of all files together.
        picture_px: Longer side of the stored pictures, pixels.
        semantic: Least cosine similarity of another query whose guides are reused; None for no reuse.
    """

    def __init__(self, folder: Path, *, limit_bytes: int, picture_px: int = 256, semantic: float | None = None) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._px = picture_px
        self._semantic = semantic
        self._counts: Counter[str] = Counter()
        self._size: tuple[int, int] | None = None  # entries, bytes: as last seen
        self._queries: dict[str, CachedGuide] = {}  # name of a query file -> what it holds
        self._seen_ns = 0  # the folder's time of change when `_queries` was read
        self._guard = threading.Lock()

    def find(self, key: GuideKey, numbers: Sequence[int], *, text_vectors: Vectors | None = None) -> dict[int, Guide]:
        """Return number -> guide for the cached ones; they are called `engine/number` whatever their first query was.

        Args:
            key: Key of the sequence.
            numbers: Numbers of its guides.
            text_vectors: Text encoder -> (d,) float32, L2-normalised, of the query: for semantic hits.
        """
        digest = self._digest(key)
        found: dict[int, Guide] = {}
        for number in numbers:
            guide = self._guide(digest, number, key)
            if guide is not None:
                found[number] = replace(guide, cached="exact")
        missing = [number for number in numbers if number not in found]
        if missing and self._semantic is not None and text_vectors:
            found |= self._find_semantic(key, missing, text_vectors)
        kinds: list[Literal["exact", "semantic"] | None] = [hit.cached for hit in found.values()]
        with self._guard:
            self._counts["hits"] += kinds.count("exact")
            self._counts["semantic_hits"] += kinds.count("semantic")
            self._counts["misses"] += len(numbers) - len(found)
        return found

    def keep(self, key: GuideKey, guides: Sequence[Guide], *, text_vectors: Vectors | None = None) -> list[Guide]:
        """Store guides; return them with the pixels that later hits will have. Guides without pixels are returned unchanged.

        If the disk is full or slow the guides are not stored, which is logged and counted (`failures`).
        """
        digest = self._digest(key)
        results, files = [], {}
        for guide in guides:
            if guide.pixels is None:
                results.append(guide)
                continue
            picture = kept_picture(guide.pixels, self._px)
            kept_guide = replace(guide, pixels=pixels_of(picture))
            name = f"{digest}-{guide.guide_id.rpartition('/')[2]}"
            if _KEY.fullmatch(name):
                facts = {
                    EDITED: bool(key.edit),
                    "prompt": key.prompt,
                    "engine": key.engine,
                    "weight": guide.weight,
                    "provenance": dict(guide.provenance),
                }
                files[name + _GUIDE] = CachedGuide(facts, picture, guide.vectors)
                kept_guide = replace(kept_guide, provenance={**guide.provenance, PICTURE_KEY: name})
            results.append(kept_guide)
        if files and text_vectors:
            files[f"{digest}.{self._family_digest(key)}{_QUERY}"] = CachedGuide({"prompt": key.prompt}, query=text_vectors)
        if files:
            self._add(lambda: files)
        return results

    def add_vectors(self, guide: Guide, vectors: Vectors) -> None:
        """Add vectors of a guide's pixels: collection -> (dim,) float32. Does nothing for a guide that is not cached."""
        path = self._path(guide.provenance.get(PICTURE_KEY))
        if path is None or not vectors:
            return

        def extended() -> dict[str, CachedGuide]:
            entry = self._read(path)
            if entry is None or vectors.keys() <= entry.vectors.keys():
                return {}
            return {path.name: replace(entry, vectors={**entry.vectors, **vectors})}

        if extended():  # most guides have the vectors already, and then no lock is needed
            self._add(extended)

    def picture(self, key: str) -> bytes | None:
        """Return a guide's JPEG by `provenance["picture"]`; None when it is not cached (any more)."""
        path = self._path(key)
        entry = None if path is None else self._read(path)
        return None if entry is None else entry.picture or None

    def stats(self) -> dict[str, float]:
        """Return size and hit counts of the cache.

        `entries`, `bytes` and `limit_bytes`; since this process started: `hits`, `semantic_hits`, `misses`, `hit_rate`,
        `corrupt` (files removed as unreadable) and `failures` (disk errors while reading or writing).
        """
        if self._size is None:
            try:
                self._count({name: stat.st_size for name, stat in self._files().items()})
            except OSError as error:
                self._failed("the guide cache cannot be listed", error)
        entries, size = self._size or (0, 0)
        with self._guard:
            counts = dict(self._counts)
        hits, semantic, misses = (counts.get(name, 0) for name in ("hits", "semantic_hits", "misses"))
        return {
            "entries": entries,
            "bytes": size,
            "limit_bytes": self._limit,
            "hits": hits,
            "semantic_hits": semantic,
            "misses": misses,
            "hit_rate": (hits + semantic) / max(1, hits + semantic + misses),
            "corrupt": counts.get("corrupt", 0),
            "failures": counts.get("failures", 0),
        }

    # -- finding -------------------------------------------------------------------------------------------------------------

    def _digest(self, key: GuideKey) -> str:
        return key.digest(picture_px=self._px)

    def _family_digest(self, key: GuideKey) -> str:
        """Return a digest of everything but the prompt: guides with an equal one may replace each other."""
        return replace(key, prompt="").digest(picture_px=self._px)

    def _path(self, key: object) -> Path | None:
        return self._folder / (key + _GUIDE) if isinstance(key, str) and _KEY.fullmatch(key) else None

    def _guide(self, digest: str, number: int, key: GuideKey) -> Guide | None:
        path = self._folder / f"{digest}-{number}{_GUIDE}"
        entry = self._read(path)
        if entry is None:
            return None
        try:
            return Guide(
                guide_id=f"{key.engine}/{number}",
                engine=key.engine,
                weight=float(entry.facts["weight"]),
                provenance={**entry.facts["provenance"], PICTURE_KEY: path.name.removesuffix(_GUIDE)},
                pixels=pixels_of(entry.picture),
                vectors=entry.vectors,
            )
        except (ImageError, KeyError, TypeError, ValueError) as error:
            self._remove_corrupt(path, error)
            return None

    def _find_semantic(self, key: GuideKey, numbers: Sequence[int], text_vectors: Vectors) -> dict[int, Guide]:
        own, suffix = self._digest(key), f".{self._family_digest(key)}{_QUERY}"
        candidates: list[tuple[float, str, str]] = []
        for name, entry in self._known_queries().items():
            common = entry.query.keys() & text_vectors.keys()
            if not name.endswith(suffix) or name.startswith(own) or not common:
                continue
            cosine = min(_cosine(entry.query[encoder], text_vectors[encoder]) for encoder in common)
            if cosine >= (self._semantic or 2):
                candidates.append((cosine, name.partition(".")[0], str(entry.facts.get("prompt", ""))))
        found: dict[int, Guide] = {}
        for cosine, digest, prompt in sorted(candidates, reverse=True):
            for number in numbers:
                guide = None if number in found else self._guide(digest, number, key)
                if guide is not None:
                    provenance = {**guide.provenance, "from_prompt": prompt, "similarity": round(cosine, 4)}
                    found[number] = replace(guide, provenance=provenance, cached="semantic")
            if len(found) == len(numbers):
                break
        return found

    def _known_queries(self) -> Mapping[str, CachedGuide]:
        """Return every query's vectors; the folder is read again after files were added or removed."""
        try:
            changed = self._folder.stat().st_mtime_ns
        except OSError:  # not made yet
            return {}
        with self._guard:
            if changed == self._seen_ns:
                return self._queries
            known = dict(self._queries)
        names = {file.name for file in os.scandir(self._folder) if file.name.endswith(_QUERY)}
        read = {name: known.get(name) or self._read(self._folder / name) for name in names}
        queries = {name: entry for name, entry in read.items() if entry is not None}
        with self._guard:
            self._queries, self._seen_ns = queries, changed
        return queries

    def _read(self, path: Path) -> CachedGuide | None:
        try:
            entry = read_entry(path)
        except UnreadableEntryError as error:
            self._remove_corrupt(path, error)
            return None
        except OSError as error:
            self._failed(f"the kept guide {path.name} cannot be read", error)
            return None
        if entry is not None:
            with suppress(OSError):  # removed by another process since, or without rights: the entry is valid all the same
                os.utime(path, ns=(time.time_ns(), time.time_ns()))
        return entry

    def _remove_corrupt(self, path: Path, error: Exception) -> None:
        _log.warning("removed the kept guide %s: %s", path.name, error)
        with self._guard:
            self._counts["corrupt"] += 1
        with suppress(OSError):  # what cannot be removed is found, and counted, again
            path.unlink(missing_ok=True)

    def _failed(self, what: str, error: Exception) -> None:
        _log.warning("%s: %s", what, error)
        with self._guard:
            self._counts["failures"] += 1

    # -- keeping -------------------------------------------------------------------------------------------------------------

    def _add(self, entries: Callable[[], Mapping[str, CachedGuide]]) -> None:
        """Write the entries (name -> entry) that `entries` returns, while no other process writes."""
        try:
            with self._locked():
                contents = {name: encode_entry(entry) for name, entry in entries().items()}
                sizes = self._make_room(contents)
                for name, content in contents.items():
                    write_whole(self._folder / name, content)
            self._count({**sizes, **{name: len(content) for name, content in contents.items()}})
        except (OSError, Timeout, TypeError, ValueError) as error:
            self._failed("guides could not be kept", error)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self._folder / "lock", timeout=_LOCK_S):
            yield

    def _make_room(self, contents: Mapping[str, bytes]) -> dict[str, int]:
        """Remove the least recently used guides until the new files fit, and queries without guides.

        Returns:
            Name -> bytes of the files that are left.
        """
        needed = sum(len(content) for content in contents.values())
        if needed > self._limit:
            raise ValueError(f"{needed} bytes are more than the cache may hold ({self._limit})")
        files = self._files()
        size = sum(stat.st_size for name, stat in files.items() if name not in contents)
        if size + needed <= self._limit:
            return {name: stat.st_size for name, stat in files.items()}
        room = min(self._limit * _ROOM, self._limit - needed)
        guides = sorted((name for name in files if name.endswith(_GUIDE)), key=lambda name: (files[name].st_mtime_ns, name))
        for name in guides:
            if size <= room:
                break
            if name not in contents:
                (self._folder / name).unlink(missing_ok=True)
                size -= files.pop(name).st_size
        in_use = {name.partition("-")[0] for name in (*files, *contents) if name.endswith(_GUIDE)}
        for name in [
            file_name for file_name in files if file_name.endswith(_QUERY) and file_name.partition(".")[0] not in in_use
        ]:
            (self._folder / name).unlink(missing_ok=True)
            size -= files.pop(name).st_size
        return {name: stat.st_size for name, stat in files.items()}

    def _count(self, sizes: Mapping[str, int]) -> None:
        self._size = sum(name.endswith(_GUIDE) for name in sizes), sum(sizes.values())

    def _files(self) -> dict[str, Any]:
        """Return name -> stat of all guides and queries. Stale temporary files are removed."""
        files = {}
        if not self._folder.exists():
            return {}
        for file in os.scandir(self._folder):
            try:
                stat = file.stat()
            except FileNotFoundError:  # removed by another process meanwhile
                continue
            if file.name.endswith((_GUIDE, _QUERY)):
                files[file.name] = stat
            elif file.name.startswith(TEMPORARY) and time.time() - stat.st_mtime > _STALE_S:
                Path(file.path).unlink(missing_ok=True)
        return files


def _cosine(left: Vector, right: Vector) -> float:
    return float(left @ right) if left.shape == right.shape else -1.0
