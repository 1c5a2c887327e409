"""Commands `lodestone eval must|ann|submission|make-vectors`: composed queries over pictures, and methods over vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.commands.evaluation.common import (
    EvaluationHomeOption,
    evaluation_home,
    index_here,
    integers_in,
    note_skipped,
    numbers_in,
    report_folder,
    shown_answers,
)
from lodestone_cli.commands.evaluation.composed_tables import print_ann, print_composed
from lodestone_cli.naming import names_in
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import Output, OutputOption, ProfileOption
from lodestone_cli.progress import shown_counts, shown_wait
from lodestone_eval.registry import COMPOSED_BENCHMARKS

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.store.base import VectorStore
    from lodestone_eval.composed.answers import ComposedReport
    from lodestone_eval.composed.pictures import EmbeddedSet
    from lodestone_eval.composed.queries import ComposedSet

app = Commands()

BenchmarkArgument = Annotated[str, typer.Argument(metavar="DATASET", help=f"One of {', '.join(COMPOSED_BENCHMARKS)}.")]
DataOption = Annotated[Path, typer.Option("--data", "-d", help="Folder that it was unpacked to.")]
SplitOption = Annotated[str | None, typer.Option("--split", help="Which part of it; default: its usual one.")]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights", help="Weight (square) of each modality, comma-separated; default: chosen on half of the queries."
    ),
]
SampleOption = Annotated[int | None, typer.Option("--sample", min=1, help="Queries at most, drawn with --seed.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of what is drawn.")]
ReportOption = Annotated[Path | None, typer.Option("--report", help="Write the report as JSON into this folder.")]


@app.command("must")
def _must(
    benchmark: BenchmarkArgument,
    data: DataOption,
    split: SplitOption = None,
    sample: SampleOption = None,
    weights: WeightsOption = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", help="Such as recall@10(1),map@10; default: those of the benchmark; comma-separated."),
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="Compare with the pictures' texts too, where there are any (MUST).")
    ] = True,
    candidates: Annotated[int, typer.Option("--candidates", min=1, help="Of each stream of MR (the paper's l).")] = 1_000,
    seed: SeedOption = 0,
    submission: Annotated[
        Path | None, typer.Option("--submission", help="Write the files for the server of CIRR or CIRCO into this folder.")
    ] = None,
    report: ReportOption = None,
    home: EvaluationHomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Measure composed queries over a benchmark's pictures: joint search, its parts alone, and its baselines."""
    with CommandContext(HomeOptions(home=home, profile=profile, output=output), purpose="lodestone eval must") as context:
        from lodestone_eval.composed.metrics import depth_of
        from lodestone_eval.composed.must import MustOptions, evaluate_must, submitted_rankings
        from lodestone_eval.composed.submission import check_submitted, write_submissions
        from lodestone_eval.registry import read_composed

        options = MustOptions(numbers_in(weights, "--weights"), names_in(metrics), candidates, seed)
        depth_of(options.metrics)  # checked before a long run
        if submission is not None:
            check_submitted(benchmark)
        folder = report_folder(report)
        composed = read_composed(benchmark, data, split=split).sampled(sample, seed=seed)
        note_skipped(context, composed.skipped)
        reports: list[ComposedReport] = []
        written: list[Path] = []
        with _embedded(context, composed, home, texts=texts) as embedded, shown_answers(context) as report_progress:
            if submission is not None:
                rankings = submitted_rankings(embedded, options, report_progress=report_progress)
                written += write_submissions(embedded.composed, rankings, submission.expanduser())
            if composed.has_truth or submission is None:
                reports = evaluate_must(embedded, options, report_progress=report_progress)
        if folder is not None:
            for number, one in enumerate(reports):
                written.append(folder / f"must-{number}.json")
                one.save(written[-1])
        document = {"methods": [one.model_dump(mode="json") for one in reports], "written": [str(path) for path in written]}
        context.emit(document, lambda console: print_composed(console, reports, written))


@app.command("ann")
def _ann(
    prefix: Annotated[Path, typer.Argument(help="Folder and beginning of the files' names: PREFIX_modal1_base.fvecs, …")],
    weights: WeightsOption = None,
    k: Annotated[str, typer.Option("--k", help="Numbers of results, comma-separated; tables use the first.")] = "10",
    wanted: Annotated[
        int | None, typer.Option("--wanted", min=1, help="k' of Recall@k(k'); default: k, or 1 where right objects are equal.")
    ] = None,
    candidates: Annotated[
        str, typer.Option("--candidates", help="The paper's l, comma-separated: candidates of a search.")
    ] = "100,200,500,1000",
    store: Annotated[
        str, typer.Option("--store", help="exact for brute force alone, edge or server for graphs too.")
    ] = "exact",
    edges: Annotated[int, typer.Option("--edges", min=2, max=512, help="Edges of a node of the graphs.")] = 16,
    build: Annotated[int, typer.Option("--build-candidates", min=8, help="Candidates while graphs are built.")] = 200,
    composed: Annotated[
        bool, typer.Option("--composed", help="Search with the composition vectors as target (the paper's option 2).")
    ] = False,
    skip_zero: Annotated[
        bool, typer.Option("--skip-zero", help="An attribute 0 of a query is left open (CelebA, Shopping).")
    ] = False,
    equally_right: Annotated[
        bool | None,
        typer.Option(
            "--equally-right/--ranked",
            help="Whether the right objects of a query are equal; default: where there is PREFIX_delete_id.ivecs.",
        ),
    ] = None,
    transfer: Annotated[
        Path | None, typer.Option("--transfer", help="Prefix of another set, to which the weights are moved.")
    ] = None,
    sample: SampleOption = None,
    seed: SeedOption = 0,
    report: ReportOption = None,
    plots: Annotated[
        bool, typer.Option("--plots", help="Draw recall against queries per second into the folder of --report.")
    ] = False,
    home: Annotated[Path | None, typer.Option("--home", help="Home whose settings name the server of --store server.")] = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Measure joint search, merged streams and joint embedding over vectors in MUST's files: tables and curves of the paper."""
    with CommandContext(HomeOptions(home=home, output=output), purpose="lodestone eval ann") as context, ExitStack() as opened:
        from lodestone.errors import InvalidRequestError
        from lodestone_eval.composed.ann import evaluate_vectors
        from lodestone_eval.composed.ann_report import AnnOptions
        from lodestone_eval.composed.vector_sets import read_vector_set
        from lodestone_schemas.collections import HnswSpec

        if plots and report is None:
            raise InvalidRequestError("--plots says what to draw, not where", hint="add --report FOLDER")
        folder = report_folder(report)
        if plots:
            from lodestone_eval.plots import require_matplotlib

            require_matplotlib()
        options = AnnOptions(
            weights=numbers_in(weights, "--weights"),
            ks=integers_in(k, "--k"),
            wanted=wanted,
            efforts=tuple(sorted(integers_in(candidates, "--candidates"))),
            sample=sample,
            seed=seed,
            hnsw=HnswSpec(m=edges, ef_construct=build),
        )
        skipped = 0 if skip_zero else None
        sets = [
            read_vector_set(path, skipped=skipped, composed=composed, equally_right=equally_right)
            for path in (prefix, transfer)
            if path is not None
        ]
        context.messages.print(
            f"{sets[0].objects:,} objects, {sets[0].queries:,} queries, {', '.join(sets[0].names)}", markup=False
        )
        with shown_counts(context) as count:
            found = evaluate_vectors(
                sets[0],
                options,
                open_store=_store_opener(context, store, opened),
                other=sets[1] if transfer is not None else None,
                report_progress=lambda step: count(printable(f"measuring {step}"), 0, 0),
            )
        written = []
        if folder is not None:
            written.append(folder / "ann.json")
            found.save(written[0])
            if plots:
                from lodestone_eval.plots import draw_curves

                written.append(draw_curves(found, folder))
        context.emit(found.model_dump(mode="json"), lambda console: print_ann(console, found, written))


@app.command("submission")
def _submission(
    benchmark: Annotated[str, typer.Argument(metavar="DATASET", help="cirr or circo.")],
    file: Annotated[Path, typer.Argument(help="The submission.")],
    data: DataOption,
    split: SplitOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Check a submission of CIRR or CIRCO as the server would, and measure it where the truth is published."""
    with CommandContext(HomeOptions(output=output), purpose="lodestone eval submission") as context:
        from lodestone_eval.composed.answers import report_of
        from lodestone_eval.composed.submission import check_submitted, read_submission
        from lodestone_eval.registry import read_composed

        check_submitted(benchmark)
        composed = read_composed(benchmark, data, split=split)
        rankings, measured = read_submission(composed, file.expanduser())
        kind = "subset" if measured == "recall_subset" else ("map", "target", "recall")
        metrics = tuple(name for name in composed.metrics if name.startswith(kind))
        reports = [report_of(composed, rankings, method=file.name, metrics=metrics)] if composed.has_truth else []
        document = {"queries": len(rankings), "methods": [one.model_dump(mode="json") for one in reports]}

        def human(console: Console) -> None:
            console.print(f"{len(rankings):,} queries are answered as the server wants them", markup=False)
            if reports:
                print_composed(console, reports, [])
            else:
                console.print("the truth of this split is not published: send the file to the server", markup=False)

        context.emit(document, human)


@app.command("make-vectors")
def _make_vectors(
    prefix: Annotated[Path, typer.Argument(help="Folder and beginning of the files' names.")],
    objects: Annotated[int, typer.Option("--objects", min=1, help="Objects.")] = 1_000_000,
    queries: Annotated[int, typer.Option("--queries", min=1, help="Queries.")] = 10_000,
    dim: Annotated[int, typer.Option("--dim", min=2, max=4096, help="Length of drawn picture vectors; 128 in SIFT.")] = 128,
    attributes: Annotated[int, typer.Option("--attributes", min=1, max=64, help="Attributes of an object.")] = 3,
    values: Annotated[int, typer.Option("--values", min=2, max=1_000_000, help="Values of an attribute.")] = 4,
    seed: SeedOption = 0,
    base_from: Annotated[
        Path | None, typer.Option("--base-from", help="Real picture vectors, such as sift_base.fvecs, instead of drawn ones.")
    ] = None,
    queries_from: Annotated[
        Path | None, typer.Option("--queries-from", help="Real query vectors, such as sift_query.fvecs.")
    ] = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Make a semi-synthetic set of vectors as the paper builds ImageText1M, in files that `lodestone eval ann` reads."""
    with CommandContext(HomeOptions(output=output), purpose="lodestone eval make-vectors") as context:
        from lodestone_eval.composed.semi_synthetic import SemiSynthetic, write_semi_synthetic

        options = SemiSynthetic(objects, queries, dim, attributes, values, seed, base_from, queries_from)
        with shown_wait(context, "making vectors"):
            paths = write_semi_synthetic(prefix, options)

        def human(console: Console) -> None:
            for path in paths:
                console.print(printable(f"wrote {path}"), style="dim", markup=False)

        context.emit({"written": [str(path) for path in paths]}, human)


@contextmanager
def _embedded(context: CommandContext, composed: ComposedSet, home: Path | None, *, texts: bool) -> Iterator[EmbeddedSet]:
    """Yield the benchmark with its vectors, made in a home that is open meanwhile."""
    from dataclasses import replace

    from lodestone.home.runtime import Runtime
    from lodestone_cli.progress import shown_progress
    from lodestone_eval.composed.pictures import embed_set
    from lodestone_eval.run import evaluation_settings

    asked = composed if texts else replace(composed, texts={})
    with evaluation_home(home) as folder:
        settings = evaluation_settings(context.loaded.settings, folder, temporary=home is None)
        with Runtime.open(settings, purpose=context.purpose) as runtime:
            with shown_progress(context) as progress, shown_answers(context) as report_progress:
                found = embed_set(
                    runtime,
                    asked,
                    index=index_here,
                    progress=progress,
                    report_progress=lambda done, total: report_progress("references", done, total),
                )
            yield found


def _store_opener(context: CommandContext, kind: str, opened: ExitStack) -> Callable[[], VectorStore] | None:
    """Return the function that opens an empty store; None for `exact`.

    Raises:
        UnknownNameError: there is no such kind of store.
    """
    import tempfile
    from uuid import uuid4

    from lodestone.errors import UnknownNameError
    from lodestone.store.factory import STORE_KINDS, open_store

    if kind == "exact":
        return None
    if kind not in STORE_KINDS:
        raise UnknownNameError.among("store", kind, ["exact", *STORE_KINDS])
    server = context.loaded.settings.store

    def open_empty() -> VectorStore:
        if kind == "edge":
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="lodestone-eval-", ignore_cleanup_errors=True))
            return open_store("edge", root=Path(folder), matrix_points=0)
        return open_store(
            "server",
            url=server.urls,
            api_key=server.api_key.get_secret_value() if server.api_key else None,
            grpc_port=server.grpc_ports,
            timeout=server.timeout_s,
            patience=server.patience_s,
            writers=server.writers,
            placement=server.placement,
            namespace=f"eval{uuid4().hex[:8]}",  # apart from the collections of any home
        )

    return open_empty
