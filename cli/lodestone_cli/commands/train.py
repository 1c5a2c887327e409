"""Commands `lodestone train …`: learn from captions, judgements and feedback."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone.config.compositions import DEFAULT_COMPOSITION
from lodestone.errors import InvalidRequestError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.completion import complete_corpora
from lodestone_cli.naming import counted
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import LocalOption
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.indexing.progress import Progress
    from lodestone.training.retrain import RetrainReport
    from lodestone.training.retrain_gate import ComplexityReport
    from lodestone.training.retrain_weights import WeightTrainingReport
    from lodestone.training.sources import CaptionedPictures

app = Commands(help="Learn from captions, judgements and feedback.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Learn from captions, judgements and feedback."""


@app.command()
def bridge(
    at: HomeOptions,
    captions: Annotated[Path | None, typer.Option("--captions", help="Table with the columns file and caption.")] = None,
    images: Annotated[Path | None, typer.Option("--images", help="Folder with the pictures of --captions.")] = None,
    corpus: Annotated[
        str | None,
        typer.Option("--corpus", "-c", help="Learn from the captions of this indexed corpus.", autocompletion=complete_corpora),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Makes training repeatable.")] = 0,
    from_nothing: Annotated[
        bool, typer.Option("--from-nothing", help="Forget the bridge in force instead of updating it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Train and measure, change nothing.")] = False,
    local: LocalOption = False,
) -> None:
    """Train the text-image bridge, re-project the collection and promote the result. No picture of it is read again."""
    if (captions is None) != (images is None) or (captions is None) == (corpus is None):
        raise InvalidRequestError(
            "say what to learn from", hint="--captions captions.tsv --images FOLDER, or --corpus NAME for an indexed corpus"
        )
    with CommandContext(at, purpose="lodestone train bridge", local=local, writes=True) as context:
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
    at: HomeOptions,
    judgements: Annotated[
        Path | None, typer.Option("--judgements", help="Queries and their right pictures, TSV (query, file) or JSON.")
    ] = None,
    feedback: Annotated[bool, typer.Option("--feedback/--no-feedback", help="Learn from feedback, too.")] = True,
    most_loss: Annotated[
        float, typer.Option("--most-loss", min=0, max=1, help="Mean average precision that the gate may cost.")
    ] = 0.01,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Fit and measure, change nothing.")] = False,
) -> None:
    """Fit the complexity gate, which finds the queries that the text pass answers well enough without guides."""
    from lodestone.training.retrain_gate import TRAINING

    if judgements is None and not feedback:
        raise InvalidRequestError("say what to learn from", hint="--judgements FILE, or feedback (lodestone feedback)")
    with CommandContext(at, purpose="lodestone train complexity", flags=dict(TRAINING), writes=True, existing=True) as context:
        from lodestone.training.judgements import read_judgements
        from lodestone.training.retrain_gate import train_complexity
        from lodestone_cli.progress import shown_progress

        judged = None if judgements is None else read_judgements(judgements.expanduser())
        with shown_progress(context) as progress:
            report = train_complexity(
                context.runtime, judged, feedback=feedback, most_loss=most_loss, dry_run=dry_run, progress=progress
            )
        context.emit(report.as_dict(), lambda console: _print_complexity(console, report))


@app.command()
def weights(
    at: HomeOptions,
    pairs: Annotated[Path | None, typer.Argument(help="Queries and their right pictures, one JSON object a line.")] = None,
    from_feedback: Annotated[
        bool, typer.Option("--from-feedback", help="Learn from judged answers to composed queries.")
    ] = False,
    composition: Annotated[
        str, typer.Option("--composition", help="Composition whose modalities are weighed.")
    ] = DEFAULT_COMPOSITION,
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, max=1000, help="Length of the list whose recall counts.")] = 10,
    negatives: Annotated[int, typer.Option("--negatives", min=1, max=1000, help="Wrong pictures a query and round.")] = 10,
    random: Annotated[bool, typer.Option("--random", help="Draw wrong pictures at random instead of searching them.")] = False,
    rate: Annotated[float, typer.Option("--rate", min=1e-4, max=1, help="Learning rate.")] = 0.05,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=1000, help="Rounds at most.")] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Makes training repeatable.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Learn and measure, change nothing.")] = False,
) -> None:
    """Learn how much each modality of composed queries counts, from queries and the pictures that are right for them."""
    with CommandContext(at, purpose="lodestone train weights", writes=True, existing=True) as context:
        from lodestone.training.modality_weights import LearningOptions
        from lodestone.training.retrain_weights import train_weights
        from lodestone_cli.progress import shown_counts

        context.require_store()
        options = LearningOptions(k=limit, negatives=negatives, hard=not random, learning_rate=rate, rounds=rounds, seed=seed)
        with shown_counts(context) as count:
            report = train_weights(
                context.runtime,
                None if pairs is None else pairs.expanduser(),
                composition=composition,
                feedback=from_feedback,
                options=options,
                dry_run=dry_run,
                told=lambda point: count("learning weights", point.round, rounds),
            )
        context.emit(report.as_dict(), lambda console: _print_weights(console, report))


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
    from lodestone.indexing.parts.registry import SliceParts
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
        held_out = f"{training.queries:,} held-out captions"
        captions = f"{training.queries:,} captions that both bridges learnt" if training.remembered else held_out
        console.print(
            f"of {captions}, right in the first ten among {training.gallery:,} pictures: {before}[bold]{training.after:.2f}[/]"
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


def _print_weights(console: Console, report: WeightTrainingReport) -> None:
    from rich.markup import escape
    from rich.table import Table

    learnt = report.learning
    console.print(
        f"learnt from {learnt.anchors:,} queries in {learnt.seconds:.1f} s, chosen on {learnt.held_out:,} others, "
        f"among {learnt.objects:,} pictures"
    )
    names = list(learnt.weights)
    curve = Table("round", *names, "loss", f"held-out recall@{learnt.k}", "reciprocal rank")
    for point in learnt.curve:
        mark = " *" if point.round == learnt.chosen else ""
        loss = "" if math.isnan(point.loss) else f"{point.loss:.3f}"
        figures = [f"{point.recall:.3f}", f"{point.reciprocal:.3f}"]
        curve.add_row(f"{point.round}{mark}", *(f"{point.weights[name]:.3f}" for name in names), loss, *figures)
    print_table(console, curve)
    alone = ", ".join(f"{name} alone {recall:.3f}" for name, recall in learnt.single.items())
    console.print(
        f"recall@{learnt.k}: learnt [bold]{learnt.recall:.3f}[/], in force before {learnt.rival:.3f}, "
        f"equal {learnt.equal:.3f}, {alone}"
    )
    if report.skipped.counts:
        skipped = counted(sum(report.skipped.counts.values()), "pair")
        console.print(f"[yellow]{skipped} could not be used[/]: {escape(printable('; '.join(report.skipped.examples)))}")
    if report.promoted:
        console.print(f"weights {report.version} of the composition {report.composition} are in force")
    elif learnt.is_better:
        console.print("dry run: nothing was changed")
    else:
        console.print("[yellow]the learnt weights rank worse: those in force stay[/], and nothing was changed")
