"""Run of an export: plan the files, have those written that are not there yet, and write the manifest at the end.

The home is only read, and its vector store is not opened. What is finished is known by receipts in the directory, so a run that
was killed goes on with the same request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lodestone.errors import EmbeddingsDamagedError, InvalidRequestError, LodestoneError, RunFailedError
from lodestone.export.directory import ExportDirectory
from lodestone.export.plan import ExportPlan
from lodestone.export.selection import ExportSelection
from lodestone.export.tasks import ExportTask, LeftOut, WrittenFile
from lodestone.export.writing import ExportJob
from lodestone.files.opening import open_area
from lodestone.indexing.faults import Faults

if TYPE_CHECKING:
    from lodestone.catalog.records import Root
    from lodestone.export.request import ExportRequest
    from lodestone.files.area import FileArea
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.bulk_work import BulkHost

_PASSES: Final = 3  # over a catalog that changes meanwhile

Progress = Callable[[int, int], None]
"""Called with the number of pictures in finished files, and with that of all pictures; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export has done.

    Attributes:
        location: Its directory or URL.
        pictures: Pictures in all of its files.
        files: Number of its files.
        bytes: Their size.
        written: Files that were written by this run; the others were there.
        without_vector: Space -> pictures that have no vector in it yet.
        left_out: Pictures that could not be read.
        is_changing: Whether the catalog still changed when the run ended.
        notes: Notes on the filters.
    """

    location: str
    pictures: int
    files: int
    bytes: int
    written: int
    without_vector: dict[str, int] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    is_changing: bool = False
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "location": self.location,
            "pictures": self.pictures,
            "files": self.files,
            "bytes": self.bytes,
            "written": self.written,
            "without_vector": self.without_vector,
            "left_out": [one._asdict() for one in self.left_out],
            "is_changing": self.is_changing,
            "notes": list(self.notes),
        }


def exported_roots(runtime: Runtime, request: ExportRequest) -> list[Root]:
    """Return the roots of the corpora that a request is about."""
    catalog = runtime.catalog
    wanted = {catalog.corpus(name).corpus_id for name in request.filters.corpora}
    return [root for root in catalog.roots(None) if not wanted or root.corpus_id in wanted]


def area_of(runtime: Runtime, directory: str) -> FileArea:
    """Return the area of an export's directory.

    Args:
        runtime: The opened home.
        directory: A folder, or the URL of one in an object store.

    Raises:
        InvalidRequestError: it is empty, or a place in the home.
        ConfigurationError: the URL cannot be used.
    """
    if not directory.strip():
        raise InvalidRequestError("the directory has no name", hint="name a new directory: lodestone export ~/export")
    if "://" in directory:
        return open_area(directory)
    folder = Path(directory).expanduser().absolute()
    if folder.resolve().is_relative_to(runtime.home.path.resolve()):
        raise InvalidRequestError(
            f"{str(folder)!r} lies in the home, whose files are Lodestone's own", hint="name a directory outside of it"
        )
    return open_area(folder)


def run_export(
    runtime: Runtime,
    request: ExportRequest,
    area: FileArea,
    *,
    host: BulkHost,
    progress: Progress = lambda _done, _total: None,
) -> ExportReport:
    """Export pictures into a directory, or bring an export there up to date. The same call goes on after an interruption.

    Args:
        runtime: The opened home.
        request: What is exported.
        area: The directory; see `area_of`.
        host: Does the work on the files.
        progress: Called for each finished file.

    Raises:
        InvalidRequestError: the request cannot be done, or the directory holds something else.
        UnknownNameError: no such corpus, root, column, space or field.
        StoreLockedError: another process exports into the directory.
        OutOfSpaceError: the disk is full; what is finished is kept.
        EmbeddingsDamagedError: a file of the embeddings is missing or damaged.
        SourceError: the folder or bucket of the pictures, or of the export, cannot be reached.
        ConfigurationError: the directory cannot be written, or workers on other machines do not see it.
    """
    selection = ExportSelection.of(runtime, request)
    directory = ExportDirectory(area)
    with directory.held():
        directory.begin(selection, home=runtime.home.id)
        run = _Run(
            ExportPlan(runtime, selection),
            selection=selection,
            directory=directory,
            job=ExportJob.of(selection, runtime, area),
            host=host,
            progress=progress,
        )
        return run.report(area.location)


class _Run:
    def __init__(
        self,
        plan: ExportPlan,
        *,
        selection: ExportSelection,
        directory: ExportDirectory,
        job: ExportJob,
        host: BulkHost,
        progress: Progress,
    ) -> None:
        self._selection = selection
        self._directory = directory
        self._job = job
        self._host = host
        self._progress = progress
        self._plan = plan
        self._digest = selection.digest()
        self._faults = Faults.from_environment()
        self._known = directory.finished()
        self._written: set[str] = set()
        self._error: LodestoneError | None = None
        self._is_open = False

    def report(self, location: str) -> ExportReport:
        """Write all files, and return what was done."""
        is_changing = True
        files: list[WrittenFile] = []
        for _ in range(_PASSES):
            before = self._plan.state()
            files = self._pass(self._plan.most_pictures(before))
            is_changing = self._plan.state() != before
            if self._error is not None and not (is_changing and isinstance(self._error, EmbeddingsDamagedError)):
                raise self._error  # compaction has deleted files that were planned, where the catalog has changed
            if not is_changing:
                break
        if self._error is not None:
            raise self._error
        names = [file.name for file in files]
        if self._is_open or not self._directory.is_complete or self._directory.surplus(names):
            self._open()
            self._directory.complete(self._selection, files)
        without = Counter[str]()
        for file in files:
            without.update(file.without_vector)
        return ExportReport(
            location,
            sum(file.pictures for file in files),
            len(files),
            sum(file.bytes for file in files),
            len(self._written),
            dict(without),
            tuple(one for file in files for one in file.left_out),
            is_changing,
            self._selection.notes,
        )

    def _pass(self, most: int) -> list[WrittenFile]:
        """Write the files that are not there in the catalog's present state, and return all files in order."""
        self._error = None
        order: list[str] = []
        inputs: dict[str, str] = {}
        is_planned = False
        pictures = 0

        def missing() -> Iterator[ExportTask]:
            nonlocal is_planned, pictures
            for task in self._plan.files():
                if self._error is not None:  # those in flight are finished, and no other is begun
                    return
                order.append(task.name)
                inputs[task.name] = task.inputs(self._digest)
                known = self._known.get(task.name)
                if known is not None and known.inputs == inputs[task.name]:
                    pictures += known.pictures
                    self._progress(pictures, most)
                    continue
                self._open()
                if known is not None:
                    self._directory.record(replace(known, inputs=""))  # it is not what the file holds from now on
                yield task
            is_planned = True

        with closing(self._host(self._job, missing())) as outcomes:
            for task, result, error in outcomes:
                if result is None:
                    self._error = self._error or error
                    continue
                self._faults.reach("exporting")
                self._directory.require(result)
                file = replace(result, inputs=inputs[task.name])
                self._directory.record(file)
                self._known[file.name] = file
                self._written.add(file.name)
                pictures += file.pictures
                self._progress(pictures, most)
        if self._error is not None:
            return []
        known_files = [self._known.get(name) for name in order]
        files = [one for one in known_files if one is not None and one.inputs == inputs[one.name]]
        if not is_planned or len(files) < len(order):
            raise RunFailedError("not all files were written", hint="run the same command again: what is finished is kept")
        return files

    def _open(self) -> None:
        """Take the manifest away before the first change."""
        if not self._is_open:
            self._directory.reopen()
            self._is_open = True
