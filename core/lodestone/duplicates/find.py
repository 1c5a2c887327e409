"""How are a corpus's copies found, kept and listed? Equal files by their hash, in SQL; pictures that look alike in a space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.pictures.duplicates import EXACT, NEAR
from lodestone.catalog.records import Corpus, DuplicateRecord, ImageState, RunState
from lodestone.config.home import Home
from lodestone.duplicates.likeness import ALIKE, Likeness
from lodestone.duplicates.near import Alike, NearSearch, grouped
from lodestone.errors import InvalidRequestError
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.tasks import this_worker
from lodestone.store.base import VectorStore

KIND: Final = "duplicates"
DEFAULT_DISTANCE: Final = 0.4
_KNOWN_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class DuplicateReport:
    """What was found in a corpus: groups, and pictures in them. `near` is None where only equal files were looked for."""

    corpus: str
    exact: int
    exact_groups: int
    near: int | None = None
    near_groups: int | None = None
    space: str | None = None
    distance: float | None = None


@dataclass(frozen=True, slots=True)
class DuplicateMember:
    """One picture of a group: `file` is root/uri, `distance` is to the group's first."""

    image_id: str
    file: str
    distance: float


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """Copies, the representative first."""

    kind: str
    corpus: str
    group_id: str
    members: tuple[DuplicateMember, ...]


def find_exact(catalog: Catalog, corpus: Corpus) -> DuplicateReport:
    """Group the corpus's files of equal content."""
    pictures = catalog.find_exact_duplicates(corpus.corpus_id)
    groups = {one.group_id for one in catalog.duplicates(kind=EXACT, corpus_id=corpus.corpus_id)}
    return DuplicateReport(corpus.name, exact=pictures, exact_groups=len(groups))


def find_duplicates(
    catalog: Catalog,
    store: VectorStore,
    home: Home,
    corpus: Corpus,
    *,
    space: str,
    thumbnails: ThumbnailStore,
    distance: float = DEFAULT_DISTANCE,
    restart: bool = False,
    told: Callable[[int, int], None] = lambda _done, _total: None,
) -> DuplicateReport:
    """Group the corpus's equal files, and its pictures that look alike, in place of what was found before.

    Stopped, it goes on where it was with the same space and distance.

    Args:
        catalog: Knows the pictures, and keeps the groups.
        store: Holds the space's collection.
        home: Keeps the journal of an unfinished search.
        corpus: Whose pictures.
        space: In which vectors are compared.
        thumbnails: Are laid over each other.
        distance: 1 - cosine, at most, of pictures that are compared.
        restart: Begin anew, even where an unfinished search could go on.
        told: Hears how many pictures were asked about, and how many there are.

    Raises:
        InvalidRequestError: the distance is not in [0, 1], or the space has no collection.
    """
    if not 0 <= distance <= 1:
        raise InvalidRequestError(
            f"a distance of {distance} is not between 0 and 1", hint="0.4 finds nearly all copies; less takes less time"
        )
    collection = store.aliases().get(space)
    if collection is None:
        raise InvalidRequestError(
            f"the space {space!r} has no collection to search",
            hint=f"index first; spaces: {', '.join(sorted(store.aliases()))}",
        )
    run = catalog.start_run(KIND, corpus.corpus_id, request={"space": space, "distance": distance}, worker=this_worker())
    try:
        with Heartbeat(catalog, run.run_id):
            report = find_exact(catalog, corpus)
            journal = home.path / KIND / f"{corpus.corpus_id}-{collection}-{distance:g}.jsonl"
            search = NearSearch(
                store,
                collection,
                corpus_id=corpus.corpus_id,
                distance=distance,
                journal=journal,
                alike=_laid_over_each_other(catalog, Likeness(thumbnails)),
                rule=f"thumbnails {ALIKE}",
            )
            if restart:
                search.forget()
            total, done = catalog.count_images(corpus.corpus_id, ImageState.ACTIVE), 0

            def asked(count: int) -> None:
                nonlocal done
                done += count
                told(done, total)

            pairs = search.run(lambda last: catalog.active_ids(corpus.corpus_id, after=last), told=asked)
            known = _living(catalog, {image_id for first, second, _ in pairs for image_id in (first, second)})
            groups = grouped(pair for pair in pairs if pair[0] in known and pair[1] in known)
            near = catalog.put_duplicates(NEAR, corpus.corpus_id, groups)
    except BaseException as error:
        state = RunState.INTERRUPTED if isinstance(error, KeyboardInterrupt) else RunState.FAILED
        catalog.finish_run(run.run_id, state, f"{type(error).__name__}: {error}")
        raise
    counts = {"exact": report.exact, "near": near}
    catalog.update_run(run.run_id, stage="done", counts=counts)
    catalog.finish_run(run.run_id, RunState.DONE)
    return DuplicateReport(corpus.name, report.exact, report.exact_groups, near, len(groups), space, distance)


def list_groups(catalog: Catalog, *, kind: str | None = None, corpus: Corpus | None = None) -> Iterator[DuplicateGroup]:
    """Groups with at least two living pictures, by kind and group, streamed."""
    roots = {root.root_id: root.name for root in catalog.roots(None)}
    names = {corpus.corpus_id: corpus.name} if corpus is not None else _corpus_names(catalog)
    records = catalog.duplicates(kind=kind, corpus_id=None if corpus is None else corpus.corpus_id)
    for (of_kind, group_id), rows in groupby(records, key=lambda one: (one.kind, one.group_id)):
        members: list[DuplicateRecord] = list(rows)
        images = catalog.images([one.image_id for one in members])
        shown = tuple(
            DuplicateMember(one.image_id, f"{roots.get(image.root_id, '?')}/{image.uri}", one.distance)
            for one in members
            if (image := images.get(one.image_id)) is not None
        )
        if len(shown) > 1:
            yield DuplicateGroup(of_kind, names.get(members[0].corpus_id, ""), group_id, shown)


def _laid_over_each_other(catalog: Catalog, likeness: Likeness) -> Alike:
    def alike(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        images = catalog.images({image_id for pair in pairs for image_id in pair})
        return [a in images and b in images and likeness.alike(images[a].hash, images[b].hash) for a, b in pairs]

    return alike


def _living(catalog: Catalog, image_ids: set[str]) -> set[str]:
    """Those that can be found now: others may have gone while the search was on its way."""
    living: set[str] = set()
    ids = iter(sorted(image_ids))
    while some := list(islice(ids, _KNOWN_AT_ONCE)):
        living |= {key for key, image in catalog.images(some).items() if image.state is ImageState.ACTIVE}
    return living


def _corpus_names(catalog: Catalog) -> dict[str, str]:
    names: dict[str, str] = {}
    while page := catalog.corpora(len(names), 500):
        names |= {corpus.corpus_id: corpus.name for corpus in page}
    return names
