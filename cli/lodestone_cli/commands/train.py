"""`lodestone train …`: learn from captions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone.errors import InvalidRequestError
from lodestone_cli.options import HomeOption, LocalOption, Output, OutputOption, ProfileOption
from lodestone_cli.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.indexing.progress import Progress
    from lodestone.learn.retrain import RetrainReport
    from lodestone.learn.sources import CaptionedPictures

app = typer.Typer(help="Learn from captions.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Learn from captions."""


@app.command()
def bridge(
    captions: Annotated[
        Path | None, typer.Option("--captions", help="Table with the columns file and caption.", show_default=False)
    ] = None,
    images: Annotated[
        Path | None, typer.Option("--images", help="Folder with the pictures of --captions.", show_default=False)
    ] = None,
    corpus: Annotated[
        str | None, typer.Option("--corpus", "-c", help="Learn from the captions of this indexed corpus.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Makes training repeatable.")] = 0,
    from_nothing: Annotated[
        bool, typer.Option("--from-nothing", help="Forget the bridge in force instead of updating it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Train and measure, change nothing.")] = False,
    local: LocalOption = False,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Train the text-image bridge, re-project the collection and promote the result. No picture of it is read again."""
    if (captions is None) != (images is None) or (captions is None) == (corpus is None):
        raise InvalidRequestError(
            "say what to learn from", hint="--captions captions.tsv --images FOLDER, or --corpus NAME for an indexed corpus"
        )
    with Session(home=home, profile=profile, output=output, purpose="lodestone train bridge") as session:
        from lodestone.learn.retrain import retrain_bridge
        from lodestone_cli.progress import shown_progress
        from lodestone_jobs.index import through

        service = None if local else session.service()
        with shown_progress(session) as progress:
            pictures = _pictures(session, captions, images, corpus, progress)
            report = retrain_bridge(
                session.runtime,
                pictures,
                seed=seed,
                from_nothing=from_nothing,
                dry_run=dry_run,
                synchronise=through(service) if service else None,
                progress=progress,
            )

        def human(console: Console) -> None:
            _print(console, report)

        session.emit(report.as_dict(), human)


def _pictures(
    session: Session, captions: Path | None, images: Path | None, corpus: str | None, progress: Progress
) -> CaptionedPictures:
    from lodestone.learn.sources import captioned_corpus, captioned_folder

    runtime = session.runtime
    if captions is not None and images is not None:
        from lodestone.indexing.captions import CaptionTable

        limit = runtime.settings.index.max_decoded_mb << 20
        table = CaptionTable.load(captions.expanduser())
        return captioned_folder(
            images.expanduser(),
            table,
            runtime.backbones(),
            max_decoded_bytes=limit,
            follow_symlinks=runtime.settings.index.follow_symlinks,
            progress=progress,
        )
    from lodestone.embeddings.stored import StoredOutputs
    from lodestone.indexing.tasks import SliceParts
    from lodestone.learn.arrays import required_outputs

    parts = SliceParts.of(runtime.backbones(), runtime.text_encoder)
    stored = StoredOutputs(runtime.catalog, runtime.home.embeddings, parts.backbones, required_outputs())
    return captioned_corpus(runtime.catalog, stored, runtime.catalog.corpus(str(corpus)).corpus_id)


def _print(console: Console, report: RetrainReport) -> None:
    training = report.training
    console.print(f"learnt from {training.texts:,} captions of {training.pictures:,} pictures in {training.seconds:.0f} s")
    if training.after is not None:
        before = "" if training.before is None else f"{training.before:.2f} -> "
        console.print(
            f"of {training.queries:,} held-out captions, right in the first ten among {training.gallery:,} pictures: "
            f"{before}[bold]{training.after:.2f}[/]"
        )
    if report.skipped:
        console.print(f"[yellow]{report.skipped:,} pictures with captions could not be used[/]")
    console.print(f"bridge {training.version} is in force" if report.promoted else "dry run: nothing was changed")
