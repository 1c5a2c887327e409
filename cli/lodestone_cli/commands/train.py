"""Commands `lodestone train …`: learn from captions, judgements and feedback."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone.errors import InvalidRequestError
from lodestone_cli.command_context import CommandContext
from lodestone_cli.naming import counted
from lodestone_cli.options import HomeOption, LocalOption, Output, OutputOption, ProfileOption

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.indexing.progress import Progress
    from lodestone.training.retrain import RetrainReport
    from lodestone.training.retrain_gate import ComplexityReport
    from lodestone.training.sources import CaptionedPictures

app = typer.Typer(help="Learn from captions, judgements and feedback.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Learn from captions, judgements and feedback."""


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
    with CommandContext(home=home, profile=profile, output=output, purpose="lodestone train bridge", local=local) as context:
        from lodestone.training.retrain import retrain_bridge
        from lodestone_cli.progress import shown_progress
        from lodestone_jobs.index import through

        context.require_store()
        if corpus is not None:
            context.require_home()
        service = context.service()
        with shown_progress(context) as progress:
            pictures = _pictures(context, captions, images, corpus, progress, from_nothing=from_nothing)
            report = retrain_bridge(
                context.runtime,
                pictures,
                seed=seed,
                from_nothing=from_nothing,
                dry_run=dry_run,
                synchronise=through(service) if service else None,
                progress=progress,
            )

        def human(console: Console) -> None:
            _print(console, report)

        context.emit(report.as_dict(), human)


@app.command()
def complexity(
    judgements: Annotated[
        Path | None,
        typer.Option("--judgements", help="Queries and their right pictures, TSV (query, file) or JSON.", show_default=False),
    ] = None,
    feedback: Annotated[bool, typer.Option("--feedback/--no-feedback", help="Learn from feedback, too.")] = True,
    most_loss: Annotated[
        float, typer.Option("--most-loss", min=0, max=1, help="Mean average precision that the gate may cost.")
    ] = 0.01,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Fit and measure, change nothing.")] = False,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Fit the complexity gate, which finds the queries that the text pass answers well enough without guides."""
    from lodestone.training.retrain_gate import TRAINING

    if judgements is None and not feedback:
        raise InvalidRequestError("say what to learn from", hint="--judgements FILE, or feedback (lodestone feedback)")
    with CommandContext(
        home=home, profile=profile, output=output, purpose="lodestone train complexity", flags=dict(TRAINING)
    ) as context:
        from lodestone.training.judgements import read_judgements
        from lodestone.training.retrain_gate import train_complexity
        from lodestone_cli.progress import shown_progress

        context.require_home()
        judged = None if judgements is None else read_judgements(judgements.expanduser())
        with shown_progress(context) as progress:
            report = train_complexity(
                context.runtime, judged, feedback=feedback, most_loss=most_loss, dry_run=dry_run, progress=progress
            )
        context.emit(report.as_dict(), lambda console: _print_complexity(console, report))


def _pictures(
    context: CommandContext,
    captions: Path | None,
    images: Path | None,
    corpus: str | None,
    progress: Progress,
    *,
    from_nothing: bool,
) -> CaptionedPictures:
    from lodestone.training.sources import captioned_corpus, captioned_folder

    runtime = context.runtime
    if captions is not None and images is not None:
        from lodestone.sources.captions import CaptionTable

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
    from lodestone.training.retrain import bridge_to_train

    parts = SliceParts.of(runtime.backbones(), runtime.text_encoder)
    required = bridge_to_train(runtime, from_nothing=from_nothing).inputs.required
    stored = StoredOutputs(runtime.catalog, runtime.embeddings, parts.backbones, required)
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
    if report.promoted:
        console.print(f"bridge {training.version} is in force")
    elif training.is_better:
        console.print("dry run: nothing was changed")
    else:
        console.print("[yellow]the new bridge is worse: the one in force stays[/], and nothing was changed")


def _print_complexity(console: Console, report: ComplexityReport) -> None:
    fit = report.fit
    judged = "1 judged query" if report.judged == 1 else f"{report.judged:,} judged queries"
    console.print(f"learnt from {judged} and feedback on {counted(report.feedback, 'answer')}")
    console.print(f"predicted against true average precision, cross-validated: r {fit.pearson:.2f}, R2 {fit.r2:.2f}")
    lost = "" if fit.lost is None else f", at {fit.lost:+.4f} mean average precision against always drawing guides"
    console.print(f"[bold]{fit.simple:.0%}[/] of the queries end with the text pass (from {fit.threshold:.2f} on){lost}")
    if report.unknown:
        console.print(f"[yellow]{len(report.unknown):,} files in the judgements are no picture of this home, or several[/]")
    console.print(f"gate {fit.version} is in force" if report.promoted else "dry run: nothing was changed")
