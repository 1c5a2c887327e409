"""Search for the duplicates of a corpus: equal files by hash in SQL, and pictures that look alike by their vectors in a space.

The groups are kept in the catalog, from which they are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.pictures.duplicates import EXACT, NEAR, SEARCH
from lodestone.catalog.records import Corpus, DuplicateRecord, ImageState, RunState
from lodestone.config.home import Home
from lodestone.duplicates.likeness import ALIKE, Likeness
from lodestone.duplicates.near import Alike, NearSearch, grouped
from lodestone.errors import InvalidRequestError
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.tasks import this_worker
from lodestone.store.base import VectorStore

KIND: Final = SEARCH
DEFAULT_DISTANCE: Final = 0.4
_KNOWN_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class DuplicateReport:
    """Counts of the groups and grouped pictures of a corpus; `near` is None if only equal files were searched for."""

    corpus: str
    exact: int
    exact_groups: int
    near: int | None = None
    near_groups: int | None = None
    space: str | None = None
    distance: float | None = None


@dataclass(frozen=True, slots=True)
class DuplicateMember:
    """One picture of a group; `file` is root/uri, and `distance` is the distance to the group's representative."""

    image_id: str
    file: str
    distance: float


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """Group of pictures that are copies of each other, the representative first."""

    kind: str
    corpus: str
    group_id: str
    members: tuple[DuplicateMember, ...]


def find_exact(catalog: Catalog, corpus: Corpus) -> DuplicateReport:
    """Group the corpus's files that have equal content."""
    pictures = catalog.find_exact_duplicates(corpus.corpus_id)
    groups = {record.group_id for record in catalog.duplicates(kind=EXACT, corpus_id=corpus.corpus_id)}
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
    report_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> DuplicateReport:
    """Group the corpus's equal files and its pictures that look alike, replacing the groups that were found before.

    A search that was stopped continues where it was if it is started again with the same space and distance.

    Args:
        catalog: Holds the pictures, and keeps the groups.
        store: Holds the space's collection.
        home: Keeps the journal of an unfinished search.
        corpus: Corpus whose pictures are compared.
        space: Space whose vectors are compared.
        thumbnails: Thumbnails by which close pictures are compared.
        distance: Largest distance (1 - cosine) of pictures that are compared.
        restart: Start again, even if an unfinished search could continue.
        report_progress: Called with the number of pictures searched so far and the number of all pictures.

    Raises:
        InvalidRequestError: The distance is not in [0, 1], or the space has no collection.
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
                alike=_compare_thumbnails(catalog, Likeness(thumbnails)),
                rule=f"thumbnails {ALIKE}",
            )
            if restart:
                search.forget()
            total, done = catalog.count_images(corpus.corpus_id, ImageState.ACTIVE), 0

            def count_searched(count: int) -> None:
                nonlocal done
                done += count
                report_progress(done, total)

            pairs = search.run(lambda last: catalog.active_ids(corpus.corpus_id, after=last), report_progress=count_searched)
            active = _active_among(catalog, {image_id for first, second, _ in pairs for image_id in (first, second)})
            groups = grouped(pair for pair in pairs if pair[0] in active and pair[1] in active)
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
    """Yield the groups with at least two existing pictures, by kind and group."""
    roots = {root.root_id: root.name for root in catalog.roots(None)}
    names = {corpus.corpus_id: corpus.name} if corpus is not None else _corpus_names(catalog)
    records = catalog.duplicates(kind=kind, corpus_id=None if corpus is None else corpus.corpus_id)
    for (of_kind, group_id), rows in groupby(records, key=lambda record: (record.kind, record.group_id)):
        members: list[DuplicateRecord] = list(rows)
        images = catalog.images([record.image_id for record in members])
        shown = tuple(
            DuplicateMember(record.image_id, f"{roots.get(image.root_id, '?')}/{image.uri}", record.distance)
            for record in members
            if (image := images.get(record.image_id)) is not None
        )
        if len(shown) > 1:
            yield DuplicateGroup(of_kind, names.get(members[0].corpus_id, ""), group_id, shown)


def _compare_thumbnails(catalog: Catalog, likeness: Likeness) -> Alike:
    def alike(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        images = catalog.images({image_id for pair in pairs for image_id in pair})
        return [a in images and b in images and likeness.alike(images[a].hash, images[b].hash) for a, b in pairs]

    return alike


def _active_among(catalog: Catalog, image_ids: set[str]) -> set[str]:
    """Return the ids of pictures that are still active, because some may have been deleted during the search."""
    active: set[str] = set()
    ids = iter(sorted(image_ids))
    while batch := list(islice(ids, _KNOWN_AT_ONCE)):
        active |= {image_id for image_id, image in catalog.images(batch).items() if image.state is ImageState.ACTIVE}
    return active


def _corpus_names(catalog: Catalog) -> dict[str, str]:
    names: dict[str, str] = {}
    while page := catalog.corpora(len(names), 500):
        names |= {corpus.corpus_id: corpus.name for corpus in page}
    return names
