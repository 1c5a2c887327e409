"""Rules by which folders and files are left out of a listing.

Left out are: homes of Lodestone, which hold thumbnails; folders with a marker (`.nomedia` and the like); what the patterns of
`.lodestoneignore` and `.ppignore` files match, of the settings and of the directory, in gitignore's syntax; recycle bins,
snapshots, and previews that other programs keep. Rules begin at a directory's own folder: what lies around it is not asked.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pathspec import GitIgnoreSpec

from lodestone.errors import InvalidRequestError
from lodestone.files.beneath import Boundaries, Enclosure, open_file, status_of

IGNORE_FILE: Final = ".lodestoneignore"
PATTERN_FILES: Final = (
    ".ppignore",
    IGNORE_FILE,
)  # PhotoPrism's has the same syntax; ours is read last, and so has the last word
MARKERS: Final = (".nomedia", ".noimage", ".nomemories")
STAR_FILES: Final = (".stignore", ".immich")
"""Files of programs that have other uses: only one that says `*`, and nothing else, marks its folder."""

CONTROL_FILES: Final = frozenset({*PATTERN_FILES, *MARKERS, *STAR_FILES})
"""Names of files that decide what is left out: when one changes, its folder is scanned again."""

HOME_MARKER: Final = "home.json"
_HOME_PARTS: Final = ("catalog.sqlite", "embeddings", "thumbnails", "store")
_MOST_BYTES: Final = 1 << 20  # of a file of patterns

HOMES, MARKED, PATTERNS, BINS, SNAPSHOTS, PREVIEWS = (
    "homes of Lodestone",
    "folders with a marker",
    "matches of patterns",
    "recycle bins",
    "snapshots",
    "folders of previews",
)
"""Kinds of what is left out, as the report of a run names them."""

_SINGULAR: Final = {
    HOMES: "home of Lodestone",
    MARKED: "folder with a marker",
    PATTERNS: "match of a pattern",
    BINS: "recycle bin",
    SNAPSHOTS: "snapshot",
    PREVIEWS: "folder of previews",
}

_FOLDERS: Final = {
    **dict.fromkeys(("@eadir", ".@__thumb", "__macosx", "thumbs.digikam"), PREVIEWS),
    **dict.fromkeys(("#recycle", "$recycle.bin", "@recycle", "recycler", "recycled", "lost+found", ".trash", ".trashes"), BINS),
    **dict.fromkeys(("#snapshot", "@snapshot", "@recently-snapshot", ".snapshot", ".snapshots", ".zfs"), SNAPSHOTS),
    "system volume information": SNAPSHOTS,
}
_LIBRARIES: Final = (".photoslibrary", ".photolibrary", ".migratedphotolibrary", ".aplibrary")
_IN_LIBRARIES: Final = frozenset(
    {"resources", "derivatives", "previews", "thumbnails", "database", "private", "internal", "scopes", "external", "caches"}
)
_PREVIEW_ENDINGS: Final = (".lrdata", ".cocatalogdb")


@dataclass(frozen=True, slots=True)
class FolderRules:
    """What is left out of one folder.

    Attributes:
        reason: Kind of the folder when it is left out itself, with all that is below; "" for a folder that is listed.
        specs: Patterns of the folders above and of this one, outermost first: (folder that they are relative to, patterns).
    """

    reason: str = ""
    specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()


class Exclusion:
    """The rules of one directory.

    Args:
        top: Absolute path of the directory's folder.
        boundaries: What the settings leave out.
        patterns: The directory's own patterns.
        within: The folder that files of patterns must lie in; None for none.

    Attributes:
        counts: What a walk left out, by kind.
    """

    def __init__(
        self, top: str, boundaries: Boundaries | None = None, *, patterns: Sequence[str] = (), within: Enclosure | None = None
    ) -> None:
        boundaries = boundaries or Boundaries()
        self.counts: Counter[str] = Counter()
        self._top = top
        self._within = within
        self._system_folders = boundaries.system_folders
        self._own = {os.path.realpath(path) for path in boundaries.own}
        first = [*boundaries.exclude, *patterns]
        self._first: tuple[tuple[str, GitIgnoreSpec], ...] = (("", parsed(first)),) if first else ()
        self._patterns = tuple(patterns)
        self._known: dict[str, FolderRules] = {}

    def of(self, relative: str, names: Collection[str] | None = None) -> FolderRules:
        """Return the rules of a folder below the directory's own ("" for that one).

        Args:
            relative: Path of the folder, by the names of the file system.
            names: Names in it, as far as they are known; None to ask the file system.
        """
        known = self._known.get(relative)
        if known is not None:
            return known
        specs = self._first
        if relative:
            above = relative.rpartition("/")[0]
            around = self.of(above)
            reason = around.reason or self.left_out(around, relative, is_folder=True)
            specs = around.specs
        else:
            reason = ""
        rules = FolderRules(reason) if reason else self._inside(relative, specs, names)
        self._known[relative] = rules
        return rules

    def left_out(self, rules: FolderRules, relative: str, *, is_folder: bool) -> str:
        """Return the kind of an entry that is left out of a folder with these rules; "" for one that is listed."""
        if is_folder and not self._system_folders and (kind := kind_of_folder(relative)):
            return kind
        verdict: bool | None = None
        for base, spec in rules.specs:
            below = relative[len(base) + 1 :] if base else relative
            found = spec.check_file(f"{below}/" if is_folder else below).include
            verdict = verdict if found is None else found
        return PATTERNS if verdict else ""

    def leaves_out(self, relative: str) -> bool:
        """Return whether a file below the directory's folder is left out, by its own name or by a folder above it."""
        rules = self.of(relative.rpartition("/")[0])
        return bool(rules.reason or self.left_out(rules, relative, is_folder=False))

    def inherited(self, folder: str) -> tuple[str, ...]:
        """Return the patterns that decide about a folder's content from above it, relative to this folder."""
        parts = folder.split("/")
        lines = [line for pattern in self._patterns if (line := _seen_from(pattern, folder))]
        for depth in range(len(parts)):
            base = "/".join(parts[:depth])
            path = os.path.join(self._top, base) if base else self._top  # noqa: PTH118
            below = "/".join(parts[depth:])
            for name in PATTERN_FILES:
                lines += [line for written in _lines(self._read(path, name)) if (line := _seen_from(written, below))]
        return tuple(dict.fromkeys(lines))

    def forget(self) -> None:
        """Forget what was read of folders, which may have changed."""
        self._known.clear()

    def _inside(
        self, relative: str, specs: tuple[tuple[str, GitIgnoreSpec], ...], names: Collection[str] | None
    ) -> FolderRules:
        path = os.path.join(self._top, relative) if relative else self._top  # noqa: PTH118 - may hold surrogates
        has = self._looking_in(path, names)
        if self._own and os.path.realpath(path) in self._own:
            return FolderRules(HOMES)
        if has(HOME_MARKER) and self._is_home(path, has):
            return FolderRules(HOMES)
        if any(map(has, MARKERS)):
            return FolderRules(MARKED)
        for name in STAR_FILES:
            if has(name) and _lines(self._read(path, name)) == ["*"]:
                return FolderRules(MARKED)
        for name in PATTERN_FILES:
            if has(name):
                lines = _lines(self._read(path, name))
                if not lines and name != IGNORE_FILE:  # as a marker
                    return FolderRules(MARKED)
                specs = (*specs, (relative, _tolerantly_parsed(lines)))
        return FolderRules("", specs)

    def _looking_in(self, path: str, names: Collection[str] | None) -> Callable[[str], bool]:
        if names is not None:
            return names.__contains__

        def exists(name: str) -> bool:
            try:
                status_of(os.path.join(path, name), self._within)  # noqa: PTH118
            except OSError:
                return False
            return True

        return exists

    def _is_home(self, path: str, has: Callable[[str], bool]) -> bool:
        """Return whether a folder with a `home.json` is a home: the file says so, or lies damaged beside a home's parts."""
        try:
            marked = json.loads(self._read(path, HOME_MARKER))
        except ValueError:
            return any(map(has, _HOME_PARTS))
        return isinstance(marked, dict) and isinstance(marked.get("format"), int) and bool({"id", "written_by"} & marked.keys())

    def _read(self, path: str, name: str) -> str:
        try:
            with open_file(os.path.join(path, name), self._within) as file:  # noqa: PTH118
                return file.read(_MOST_BYTES).decode("utf-8-sig", "replace")
        except OSError:  # it cannot be read, or leads elsewhere: what it would leave out is not known
            return ""


def counted(left_out: Mapping[str, int]) -> str:
    """Return what was left out in words: "12 videos, 1 recycle bin"."""
    return ", ".join(
        f"{count:,} {_SINGULAR.get(kind, kind.removesuffix('s')) if count == 1 else kind}" for kind, count in left_out.items()
    )


def kind_of_folder(relative: str) -> str:
    """Return the kind of a folder that systems and other programs keep for themselves, by its path; "" for any other."""
    above, _, name = relative.lower().rpartition("/")
    if name in _FOLDERS:
        return _FOLDERS[name]
    if name.startswith(".trash-"):
        return BINS
    if name.endswith(_PREVIEW_ENDINGS) or (name in _IN_LIBRARIES and above.endswith(_LIBRARIES)):
        return PREVIEWS
    return ""


def parsed(patterns: Sequence[str]) -> GitIgnoreSpec:
    """Return patterns in gitignore's syntax, ready to match.

    Raises:
        InvalidRequestError: one of them cannot be read.
    """
    for pattern in patterns:
        try:
            GitIgnoreSpec.from_lines([pattern])
        except ValueError as error:
            raise InvalidRequestError(
                f"the pattern {pattern!r} cannot be read: {error}",
                hint="write it as in a .gitignore, e.g. 'drafts/' or '*.png'",
            ) from error
    return GitIgnoreSpec.from_lines(patterns)


def _tolerantly_parsed(lines: Sequence[str]) -> GitIgnoreSpec:
    """Return the patterns of a file without those that cannot be read, as git does."""
    readable: list[str] = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        readable.append(line)
    return GitIgnoreSpec.from_lines(readable)


def _seen_from(pattern: str, folder: str) -> str:
    """Return a pattern as it is written in a folder further down; "" where it matches nothing in there."""
    negated = "!" if pattern.startswith("!") else ""
    body = pattern.removeprefix("!")
    if "/" not in body.rstrip().rstrip("/") or body.startswith("**/"):
        return pattern
    inside = body.lstrip("/")
    return f"{negated}/{inside[len(folder) + 1 :]}" if inside.startswith(f"{folder}/") and len(inside) > len(folder) + 1 else ""


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
