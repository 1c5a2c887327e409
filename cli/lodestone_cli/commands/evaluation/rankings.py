"""Commands `lodestone eval …`: search quality on a benchmark or on the user's captioned pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.commands.evaluation.common import (
    EvaluationHomeOption,
    evaluation_home,
    index_here,
    note_skipped,
    report_folder,
    shown_answers,
)
from lodestone_cli.commands.evaluation.composed import app as composed_app
from lodestone_cli.naming import names_in
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import Output, OutputOption, ProfileOption
from lodestone_cli.terminal.console import print_table
from lodestone_eval.registry import BENCHMARKS

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_eval.baselines import LanguageModel
    from lodestone_eval.datasets.base import EvalSet
    from lodestone_eval.report import Comparison, EvalReport
    from lodestone_eval.run import EvalOptions

_REMARKS = 3  # shown of a configuration
_NAME_WIDTH = 20
_WIDE = 90  # columns of a terminal that show R@10 and hit@1 as well
_ON_PAPER = frozenset({"p@10", "mrr", "recall@60", "precision@ep"})  # in the report alone: the screen is narrow

app = Commands(
    help="Measure search quality on a benchmark in its published layout, or on your own captioned pictures.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Measure search quality on a benchmark in its published layout, or on your own captioned pictures."""


def _evaluate(
    typer_context: typer.Context,
    data: Annotated[Path, typer.Option("--data", "-d", help="Folder that the benchmark was unpacked to.")],
    split: Annotated[str | None, typer.Option("--split", help="Which part of it; default: its usual one.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Pictures (pairs) at most, drawn by hash.")] = None,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="Queries at most, drawn by hash.")] = None,
    captioned: Annotated[
        float | None,
        typer.Option(
            "--captioned",
            min=0,
            max=1,
            help="Index this share of the pictures with their captions, but for one each, which is asked.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of what is drawn, and of the guides.")] = 0,
    run: Annotated[
        str | None,
        typer.Option(
            help="Only these of text, captions, rewrite, full, everything, needle, needle-gate, needle-trust; comma-separated."
        ),
    ] = None,
    ablate: Annotated[
        str | None,
        typer.Option(
            "--ablate",
            help="Leave out each of guides, embedders, outliers, gate, adaptive, trust, tags; "
            "NEEDLE's ranking with other values of each of m, l, engines, size; comma-separated.",
        ),
    ] = None,
    eta: Annotated[
        float, typer.Option("--eta", min=0.001, max=0.999, help="Learning rate of needle-trust's simulated feedback.")
    ] = 0.05,
    judged: Annotated[
        bool, typer.Option("--judged", help="Pass over results that nobody looked at for a query (LVIS).")
    ] = False,
    llm: Annotated[
        str | None,
        typer.Option("--llm", help="OpenAI-compatible base URL that rewrites queries, e.g. http://127.0.0.1:8000/v1."),
    ] = None,
    llm_model: Annotated[str, typer.Option("--llm-model", help="Its model.")] = "default",
    llm_key_env: Annotated[str, typer.Option("--llm-key-env", help="Variable with its credential.")] = "OPENAI_API_KEY",
    report: Annotated[Path | None, typer.Option("--report", help="Write report.json and report.md into this folder.")] = None,
    plots: Annotated[bool, typer.Option("--plots", help="Draw into the folder of --report too.")] = False,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=64, help="Queries at once.")] = 4,
    home: EvaluationHomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    name = str(typer_context.info_name)
    with CommandContext(HomeOptions(home=home, profile=profile, output=output), purpose="lodestone eval") as context:
        from lodestone_eval.registry import read_benchmark
        from lodestone_eval.run import EvalOptions
        from lodestone_eval.selection import QuerySelection, select

        report = report_folder(report, plots=plots)
        selection = QuerySelection(limit=limit, sample=sample, captioned=captioned, seed=seed)
        options = EvalOptions(
            selection=selection,
            run=names_in(run),
            ablate=names_in(ablate),
            judged=judged,
            llm=_language_model(llm, llm_model, llm_key_env),
            concurrency=concurrency,
            seed=seed,
            eta=eta,
            temporary=home is None,
        )
        evalset = select(read_benchmark(name, data, split=split), selection)
        note_skipped(context, evalset.skipped)
        with evaluation_home(home) as folder:
            found = _run(context, evalset, options, folder)
        written = _write(found, report, plots=plots) if report is not None else []
        context.emit(found.model_dump(mode="json"), lambda console: _print(console, found, written))


@app.command("compare")
def _compare(
    before: Annotated[Path, typer.Argument(help="report.json of one run.")],
    after: Annotated[Path, typer.Argument(help="report.json of another.")],
    output: OutputOption = Output.HUMAN,
) -> None:
    """Compare two runs, query by query, in the configurations that both have."""
    with CommandContext(HomeOptions(output=output), purpose="lodestone eval compare") as context:
        from lodestone_eval.report import compare_reports, differences, load_report

        first, second = load_report(before.expanduser()), load_report(after.expanduser())
        found = compare_reports(first, second)
        notes = differences(first, second)

        def human(console: Console) -> None:
            _print_comparisons(console, found)
            for note in notes:
                console.print(f"note: {note}", style="yellow", markup=False)

        context.emit({"comparisons": [one.model_dump(mode="json") for one in found], "differences": notes}, human)


for _name, _benchmark in BENCHMARKS.items():
    app.command(_name, help=_benchmark.about)(_evaluate)
app.add_typer(composed_app)


def _run(context: CommandContext, evalset: EvalSet, options: EvalOptions, home: Path) -> EvalReport:
    from lodestone.home.runtime import Runtime
    from lodestone_cli.progress import shown_progress
    from lodestone_eval.run import evaluate, evaluation_settings
    from lodestone_eval.staging import index_set

    settings = evaluation_settings(context.loaded.settings, home, temporary=options.temporary)
    with Runtime.open(settings, purpose=context.purpose) as runtime:
        with shown_progress(context) as progress:
            indexed = index_set(runtime, evalset, index=index_here, progress=progress)
        with shown_answers(context) as report_progress:
            return evaluate(runtime, evalset, indexed, options, report_progress=report_progress)


def _write(report: EvalReport, folder: Path, *, plots: bool) -> list[Path]:
    from lodestone_eval.markdown import to_markdown

    paths = [folder / "report.json", folder / "report.md"]
    report.save(paths[0])
    paths[1].write_text(to_markdown(report), encoding="utf-8")
    if plots:
        from lodestone_eval.plots import draw

        paths += draw(report, folder)
    return paths


def _language_model(url: str | None, model: str, key_env: str) -> LanguageModel | None:
    from lodestone_eval.baselines import LanguageModel

    return None if url is None else LanguageModel(url, model, key_env)


def _print(console: Console, report: EvalReport, written: list[Path]) -> None:
    asked = "queries" if report.kind == "ranking" else "pairs"
    console.print(
        f"{report.benchmark}{f' ({report.split})' if report.split else ''}: {len(report.queries):,} {asked} over "
        f"{report.pictures:,} pictures, {report.described:,} of them with a caption or tag; means with 95% intervals"
    )
    _print_groups(console, report)
    _print_needle(console, report)
    console.print()
    _print_comparisons(console, report.comparisons)
    for one in report.configurations:
        if one.skipped is not None:
            console.print(f"note: {one.name} was not run: {one.skipped}", style="yellow", markup=False)
        for code, count in one.failures.items():
            console.print(f"note: {one.name}: {count:,} queries failed: {code}", style="yellow", markup=False)
        for remark, count in list(one.remarks.items())[:_REMARKS]:
            console.print(printable(f"note: {one.name}: {count:,} x {remark}"), style="yellow", markup=False)
    for note in report.notes:
        console.print(printable(f"note: {note}"), style="yellow", markup=False)
    for path in written:
        console.print(printable(f"wrote {path}"), style="dim", markup=False)


def _print_comparisons(console: Console, comparisons: list[Comparison]) -> None:
    from lodestone_eval.markdown import TITLES, describe, p_value

    for one in comparisons:
        paired = one.paired
        tests = f"p {p_value(paired.p_bootstrap)} (bootstrap), {p_value(paired.p_wilcoxon)} (Wilcoxon)"
        name = one.before if one.before == one.after else ""
        where = " ".join(part for part in (one.group, name) if part)
        console.print(f"{where:<14} {describe(one)} {TITLES[one.metric]}; {tests}; n = {paired.queries:,}", markup=False)


def _print_needle(console: Console, report: EvalReport) -> None:
    """Print NEEDLE's own tables, where its ranking was run."""
    from rich.table import Table

    from lodestone_eval.needle_tables import needle_tables

    for shown in needle_tables(report):
        table = Table(title=shown.title, title_justify="left", title_style="", box=None, pad_edge=False)
        for number, column in enumerate(shown.head):
            table.add_column(column, justify="right" if number else "left", min_width=_NAME_WIDTH if not column else 0)
        for row in shown.rows:
            table.add_row(*row)
        console.print()
        print_table(console, table, markup=False)


def _print_groups(console: Console, report: EvalReport) -> None:
    from rich.table import Table

    from lodestone_eval.markdown import TITLES

    shown = [metric for metric in report.metrics if metric not in _ON_PAPER]
    if console.width < _WIDE:
        shown = [metric for metric in shown if metric not in {"r@10", "hit@1"}]
    gate = ["simple"] if any(one.simple is not None for one in report.configurations) else []
    groups = dict.fromkeys(group.name for one in report.configurations for group in one.groups)
    for group in groups:
        table = Table(box=None, pad_edge=False)
        table.add_column(group, no_wrap=True, min_width=_NAME_WIDTH)
        widths = {"n": 4, TITLES[shown[0]]: len("0.742 [0.711, 0.773]"), "ms": 4}
        for column in ("n", *(TITLES[metric] for metric in shown), "guides", *gate, "ms"):
            table.add_column(column, justify="right", no_wrap=True, min_width=widths.get(column, len(column)))
        for one in report.configurations:
            found = next((one_group for one_group in one.groups if one_group.name == group), None)
            if found is None:
                continue
            main, *others = (found.metrics[metric] for metric in shown)
            latency = f"{one.latency_ms['p50']:.0f}" if one.latency_ms else ""
            means = (f"{value.mean:.3f}" for value in others)
            simple = "" if one.simple is None else f"{one.simple:.0%}"
            table.add_row(
                one.name, f"{found.queries:,}", str(main), *means, f"{one.guides:.1f}", *([simple] if gate else []), latency
            )
        console.print()
        print_table(console, table, markup=False)
