"""Commands `lodestone embeddings …`: show, compact and verify the stored outputs of the models."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.naming import corpora_of, counted
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import OneCorpusOption

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.embeddings.compaction import CompactionReport
    from lodestone.errors import LodestoneError

app = Commands(help="The Parquet files that hold what the models saw.", no_args_is_help=True)


@app.command()
def show(at: HomeOptions, corpus: OneCorpusOption = None) -> None:
    """Show where the embeddings are, and what each part of them takes."""
    with CommandContext(at, existing=True) as context:
        runtime = context.runtime
        corpus_id = None if corpus is None else runtime.catalog.corpus(corpus).corpus_id
        usage = runtime.catalog.part_usage(corpus_id)
        from lodestone.indexing.parts.registry import SliceParts

        in_use = set(SliceParts.of(runtime.backbones(), runtime.text_encoder).names())
        value = {
            "location": runtime.embeddings.location,
            "parts": [{**asdict(part), "in_use": part.part in in_use} for part in usage],
        }

        def human(console: Console) -> None:
            console.print(printable(f"embeddings in {runtime.embeddings.location}"), markup=False)
            if not usage:
                console.print("nothing is embedded yet: lodestone index ~/Pictures")
            for part in usage:
                unused = "" if part.part in in_use else "  (of a model that the profile does not use)"
                size = part.bytes / (1 << 20)
                console.print(f"  {part.part}: {part.files:,} files, {part.rows:,} rows, {size:,.1f} MB{unused}", markup=False)

        context.emit(value, human)


@app.command()
def compact(
    at: HomeOptions,
    corpus: OneCorpusOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
) -> None:
    """Rewrite slices that hold rows of changed and vanished pictures, and join small ones. Searches are not affected."""
    with CommandContext(at, purpose="lodestone embeddings compact", writes=True, existing=True) as context:
        from lodestone.indexing.run.corpus_changes import compact_corpus
        from lodestone_cli.progress import shown_progress

        runtime = context.runtime
        names = [corpus] if corpus else [known.name for known in corpora_of(runtime.catalog)]
        with shown_progress(context) as progress:
            reports = {name: compact_corpus(runtime, name, dry_run=dry_run, progress=progress) for name in names}

        def human(console: Console) -> None:
            if not reports:
                console.print("no corpus yet: lodestone index ~/Pictures")
            for name, report in reports.items():
                console.print(printable(f"{name}: {_said(report, dry_run=dry_run)}"), markup=False)

        context.emit({name: asdict(report) for name, report in reports.items()}, human)


@app.command()
def verify(
    at: HomeOptions,
    corpus: OneCorpusOption = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file and compare its checksum, not only its size.")] = False,
) -> None:
    """Compare the files with what the catalog has of them. Damaged ones are made again by the next `lodestone index`."""
    with CommandContext(at, purpose="lodestone embeddings verify", existing=True) as context:
        from lodestone.embeddings.thumbnail_upkeep import forget_pack
        from lodestone_cli.damaged_files import find_damaged

        runtime = context.runtime
        catalog = runtime.catalog
        damaged, packs = find_damaged(context, corpora_of(catalog, corpus), deep=deep)
        found = [
            {"corpus": one.name, "slice_id": receipt.slice_id, "part": receipt.part, "path": receipt.path, "what": what}
            for one, receipt, what in damaged
        ]
        for one in found:  # so that the next run finds them unfinished
            catalog.forget_receipts(one["slice_id"], [one["part"]])
        for pack in packs:
            forget_pack(catalog, runtime.thumbnails.packs, pack)

        def human(console: Console) -> None:
            for one in found:
                console.print(printable(f"{one['path']} {one['what']}"), markup=False)
            for pack in packs:
                console.print(printable(f"{pack.name.path} {pack.problem}"), markup=False)
            sound = (
                "all files are as they were written" if deep else "all files have their sizes; --deep compares checksums too"
            )
            count = len(found) + len(packs)
            console.print(f"damaged: {counted(count, 'file')}" if count else sound)

        damaged_thumbnails = [{"slice_id": pack.slice_id, "path": pack.name.path, "what": pack.problem} for pack in packs]
        context.emit({"damaged": found, "thumbnails": damaged_thumbnails}, human)
        if found:
            raise _damaged(len(found))
        if packs:
            raise _damaged_packs(len(packs))


def _damaged(count: int) -> LodestoneError:
    from lodestone.errors import EmbeddingsDamagedError

    return EmbeddingsDamagedError(
        f"{counted(count, 'embedding file')} missing, truncated or altered", hint="`lodestone index` makes them again"
    )


def _damaged_packs(count: int) -> LodestoneError:
    from lodestone.errors import ThumbnailsDamagedError

    return ThumbnailsDamagedError(
        f"{counted(count, 'pack')} of thumbnails missing, truncated or altered",
        hint="`lodestone index` makes them again from the pictures; no model runs",
    )


def _said(report: CompactionReport, *, dry_run: bool) -> str:
    if not (report.replaced or report.files_deleted or report.waiting or report.damaged or report.thumbnails_dropped):
        return "nothing to compact"
    would = "would replace" if dry_run else "replaced"
    said = f"{would} {report.replaced:,} slices by {report.written:,}, {report.rows_dropped:,} rows dropped"
    if not dry_run:
        said += f", {report.files_deleted:,} files deleted ({report.bytes_freed / (1 << 20):+,.1f} MB freed)"
    if report.thumbnails_dropped:
        said += f"; {report.thumbnails_dropped:,} thumbnails dropped"
    if report.waiting:
        said += f"; {report.waiting:,} old slices are kept while a run is going on: compact again later"
    if report.damaged:
        said += f"; {report.damaged:,} damaged files: run `lodestone index` again, then compact"
    return said
