"""Assignment of buckets, tables and archives that are to be indexed to roots.

As with folders, each becomes a root, unless it lies inside one of the same kind. Roots of the same kind inside a prefix keep
their pictures and are scanned in the same run. Archives (and tables) of one folder share a root, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Corpus, Root
from lodestone.errors import InvalidRequestError, SourceError
from lodestone.files.beneath import Boundaries
from lodestone.files.filesystems import FileSystems
from lodestone.files.urls import Url, is_url
from lodestone.indexing.scan.scope import ScanScope
from lodestone.sources.base import UnreadablePath
from lodestone.sources.boundaries import enclosure_of
from lodestone.sources.containers import ContainerSource
from lodestone.sources.locate import Named, source_of
from lodestone.sources.locators import OBJECT, base_of
from lodestone.sources.objects import ObjectSource
from lodestone.sources.patterns import Pattern


@dataclass(frozen=True, slots=True)
class SourceCandidate:
    """A bucket's prefix, table or archive with at least one picture. Its root is created only when it is really indexed."""

    named: Named
    filesystems: FileSystems = field(default_factory=FileSystems, repr=False)
    boundaries: Boundaries = field(default_factory=Boundaries)

    def scopes(self, catalog: Catalog, corpus: Corpus) -> list[ScanScope]:
        """Return the candidate as parts of roots; creates the root if there is none."""
        same = [root for root in catalog.roots(corpus.corpus_id) if root.kind == self.named.kind]
        holder = max(
            (root for root in same if below(self.named.base, base_of(root)) is not None),
            key=lambda root: len(base_of(root)),
            default=None,
        )
        root = holder or catalog.ensure_root(corpus.corpus_id, self.named.root_path, kind=self.named.kind)
        prefix = below(self.named.base, base_of(root)) or ""
        if self.named.kind != OBJECT:
            return [self._of_containers(catalog, root, prefix)]
        inner = [other for other in same if other != root and below(base_of(other), self.named.base)]
        scopes = [self._of_objects(root, prefix, self.named.pattern, inner)]
        if not self.named.names:
            scopes += [
                self._of_objects(inner_root, "", Pattern(""), [other_root for other_root in inner if other_root != inner_root])
                for inner_root in inner
            ]
        return scopes

    def _of_objects(self, root: Root, prefix: str, pattern: Pattern, inner: Sequence[Root]) -> ScanScope:
        base = base_of(root)
        others = [relative for other in inner if (relative := below(base_of(other), base))]
        if pattern.text and prefix:
            pattern = replace(pattern, text="\n".join(f"{prefix}/{line}" for line in pattern.text.split("\n")))
        exclude = (*self.boundaries.exclude, *root.patterns)
        url = Url.stored(base)
        source = ObjectSource(url, self.filesystems, prefix=prefix, pattern=pattern, others=others, exclude=exclude)
        return ScanScope(root, Path(), prefix=prefix or pattern.text, source=source)

    def _of_containers(self, catalog: Catalog, root: Root, prefix: str) -> ScanScope:
        text = self.named.names
        if prefix:
            text = "\n".join(f"{prefix}/{line}" for line in (text or "**").split("\n"))
        pattern = Pattern(text, literal=self.named.literal)
        source = ContainerSource(
            base_of(root),
            root.kind,
            self.filesystems,
            pattern=pattern,
            known=catalog.containers(root.root_id),
            within=enclosure_of(root, self.boundaries),
        )
        return ScanScope(root, Path(), prefix=text, source=source)


def require_pictures(named: Named, filesystems: FileSystems, boundaries: Boundaries) -> None:
    """Check that there is a picture; returns at the first.

    Raises:
        SourceError: it cannot be listed or read.
        InvalidRequestError: there is no picture.
    """
    troubles: list[UnreadablePath] = []
    within = None if is_url(named.base) else boundaries.around(named.base, is_folder=False)
    if next(iter(source_of(named, filesystems, within).items(troubles.append)), None) is not None:
        return
    shown = Url.stored(named.base).shown if is_url(named.base) else repr(named.base)
    which = f"{shown}, {named.names.splitlines()[0]}" if named.names else shown
    if troubles:
        first = troubles[0]
        raise SourceError(f"no picture of {which} can be read: {first.message}", hint="see docs/sources.md", reason=first.code)
    raise InvalidRequestError(
        f"nothing to index: there are no pictures in {which}",
        hint="give a prefix, a table or an archive with pictures; what was indexed from there before is kept",
        path=which,
    )


def below(place: str, around: str) -> str | None:
    """Return a folder or prefix relative to another, "" for itself; None where it lies elsewhere."""
    if is_url(place) != is_url(around):
        return None
    if is_url(place):
        return Url.stored(place).below(Url.stored(around))
    inner, outer = Path(place), Path(around)
    if inner == outer:
        return ""
    return inner.relative_to(outer).as_posix() if outer in inner.parents else None
