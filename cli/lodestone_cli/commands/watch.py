"""Command `lodestone watch`: keep directories up to date while this command (or the service) runs."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.completion import complete_corpora

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.catalog.records import Root
    from lodestone.config.settings import Settings
    from lodestone.indexing.progress import Progress
    from lodestone_schemas.directories import JobInfo

_LOOK_S = 0.5


def watch(
    at: HomeOptions,
    paths: Annotated[
        list[str] | None, typer.Argument(help="Folders to watch from now on; none: those watched already.")
    ] = None,
    corpus: Annotated[
        str, typer.Option("--corpus", "-c", help="Name that their pictures are indexed under.", autocompletion=complete_corpora)
    ] = "default",
) -> None:
    """Index watched directories whenever their files change, until Ctrl-C. While the service runs, it does so itself."""
    with CommandContext(at, purpose="lodestone watch", writes=True) as context:
        from lodestone.directories.service import DirectoryService

        if not paths:
            context.require_home()

        book = DirectoryService(context.runtime.catalog, context.runtime.home)
        for path in paths or []:
            book.add(path, corpus=corpus, watch=True)
        watched = [root.path for root, _ in _watched(context)]
        by_service = context.service() is not None

        def human(console: Console) -> None:
            if not watched:
                console.print("nothing is watched: lodestone watch ~/Pictures")
            for path in watched:
                if not Path(path).is_dir():
                    console.print(
                        printable(f"{path} is not there: its pictures are kept, and it is watched when it is back"),
                        markup=False,
                    )
                    continue
                console.print(printable(f"{'the service watches' if by_service else 'watching'} {path}"), markup=False)

        context.emit({"watched": watched, "by": "service" if by_service else "this command"}, human)
        if watched and not by_service:
            _watch(context)


def _watch(context: CommandContext) -> None:
    from lodestone.directories.child_queue import ChildQueue
    from lodestone.directories.watch import DirectoryWatcher
    from lodestone.sources.boundaries import boundaries_of

    settings = context.loaded.settings
    queue = ChildQueue(settings, partial(_synchronise, settings))
    watcher = DirectoryWatcher(lambda: _watched(context), queue.submit, boundaries=boundaries_of(settings))
    watcher.start()
    reported: set[str] = set()
    try:
        while True:
            for job in queue.jobs():
                if job.state in {"done", "failed"} and job.job_id not in reported:
                    reported.add(job.job_id)
                    context.messages.print(printable(_said(job)), markup=False)
            time.sleep(_LOOK_S)
    finally:
        closing = [threading.Thread(target=part.close) for part in (watcher, queue)]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()


def _said(job: JobInfo) -> str:
    if job.state == "failed":
        return f"{job.corpus}: {job.error}"
    changes = {name: job.counts.get(name, 0) for name in ("new", "changed", "moved", "back", "gone", "failed")}
    words = ", ".join(f"{count:,} {name}" for name, count in changes.items() if count)
    return f"{job.corpus}: {words or 'up to date'}"


def _watched(context: CommandContext) -> list[tuple[Root, str]]:
    from lodestone.directories.naming import corpus_names
    from lodestone.directories.upkeep import FOLDER

    catalog = context.runtime.catalog
    names = corpus_names(catalog)
    return [(root, names[root.corpus_id]) for root in catalog.roots(None) if root.watched and root.kind == FOLDER]


def _synchronise(settings: Settings, run_id: str, progress: Progress, build: bool) -> None:
    """Synchronise the store after a run: in a service that was started meanwhile, or else in this process.

    This process holds the store only while it synchronises.
    """
    from lodestone.config.home import Home
    from lodestone.home.running_service.address import find_service
    from lodestone.home.running_service.client import ServiceClient
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.sync.collections import sync
    from lodestone_jobs.index import through

    address = find_service(Home(settings.home))
    if address is not None:
        with ServiceClient(address) as client:
            through(client)(run_id, progress, build=build)
        return
    with Runtime.open(settings, purpose="lodestone watch") as runtime:
        sync(runtime, progress=progress, build=build)
