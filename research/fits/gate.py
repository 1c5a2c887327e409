"""Gain of the complexity gate and of the tags that it learns from: fitted on training folds, measured on validation data.

    python -m research.fits.gate --data DIR [DIR ...] [--cache DIR] [--captioned 0.3] [--generation-ms 1000]
        [--ship]

Each DIR holds `captions.tsv` (columns file, caption) and `images/`; the first has five captions a photo and is asked about,
the others help to train the bridges. The report tells how well the text pass's average precision is predicted, how many
queries the gate ends with the text pass and at which loss, how latency falls, and what happens when 500 queries leave tags:
shares and mean average precision before, after, and after undoing them. `--ship` writes data/gate/.

Rankings are computed on dense vectors (gate_world.py); tags go through the real catalog, outbox, store and search. Guides are
exemplars, which take no time here. `--generation-ms` is the time that a generator would take, so the latency is computed: the
text pass, plus that time for the queries that the gate calls complex.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import table

from lodestone.query.deciding.gate import SHIPPED, GateModel, Method
from lodestone.tags import implicit as tags_model
from lodestone.tags.implicit import Confidence
from lodestone.training.complexity import GateReport, Observation, fit_gate, pearson
from lodestone_eval.compare import bootstrap
from research.fits.gate_data import SHARES, Data, Scene, judged, observations, used
from research.fits.gate_stream import Home, reinforcement, stream
from research.fits.gate_world import Answers
from research.fits.tag_confidence import ConfidenceReport, JudgedAnswer, fit_confidence

SHIP_TO = Path(__file__).resolve().parents[2] / "core" / "lodestone" / "data" / "gate"
NOTICE = {
    "data": "Flickr8k, official training split (Hodosh et al., 2013): the part for training of research/fits/gate.py; "
    "bridges also of 2,833 photos of COCO",
    "licence_notice": "Flickr8k is for research use; numbers learnt from it carry that notice",
}


STREAM = (
    "tags",
    "when",
    "tags",
    "right",
    "other words: simple",
    "MAP",
    "simple at the former MAP",
    "same words: simple",
    "MAP",
    "simple at the former MAP",
)
HEADER = ("queries", "r", "MAP text", "always guides", "gate", "lost", "simple", "faster")
DAYS = ("day", "tags left", "right", "simple (without tags)", "MAP gate (without)", "MAP text (without)")


def fit(data: Data) -> tuple[GateModel, GateReport, Confidence, ConfidenceReport]:
    """Fit both models to the training part."""
    observed: list[Observation] = []
    answers: list[JudgedAnswer] = []
    for number, scene in enumerate(data.folds()):
        observed += observations(scene, number)
        asked = scene.asked(4)
        for share in SHARES[1:]:
            answers += judged(scene.world.answer(asked, captions=scene.captions(share, number)), asked)
    gate, gate_report = fit_gate(observed, provenance=NOTICE)
    sure, sure_report = fit_confidence(answers, provenance=NOTICE)
    return replace(gate, provenance={**NOTICE, "figures": gate_report.as_dict()}), gate_report, sure, sure_report


def verdicts(gate: GateModel, methods: Sequence[Sequence[Method]]) -> tuple[np.ndarray, np.ndarray]:
    """Return (q,) whether each query is simple, and (q,) its predicted average precision."""
    decisions = [gate.decide(lists) for lists in methods]
    simple = np.array([decision.verdict == "simple" for decision in decisions])
    return simple, np.array([decision.predicted_ap for decision in decisions])


def row_of(name: str, answers: Answers, gate: GateModel, generation: float, text_pass: float) -> tuple[str, ...]:
    """Return one line of the table of settings."""
    simple, predicted = verdicts(gate, answers.methods)
    lost = np.where(simple, answers.guided - answers.text, 0.0)
    with_gate = text_pass + (1 - simple.mean()) * generation
    return (
        name,
        f"{pearson(predicted, answers.text):.2f}",
        f"{answers.text.mean():.3f}",
        f"{answers.guided.mean():.3f}",
        f"{np.where(simple, answers.text, answers.guided).mean():.3f}",
        str(bootstrap(lost)),
        f"{simple.mean():.0%}",
        f"{(text_pass + generation) / with_gate:.1f} x",
    )


def settings(scene: Scene, gate: GateModel, report: Report, *, share: float, generation: float, text_pass: float) -> None:
    """Report the tables of homes and of the mixed set; `share` of the mixed set's pictures have captions."""
    rows: list[tuple[str, ...]] = [HEADER]
    asked, every = scene.asked(4), []
    for captioned in SHARES:
        every.append(scene.world.answer(asked, captions=scene.captions(captioned, 9)))
        rows.append(row_of(f"captions; {captioned:.0%} of the pictures captioned", every[-1], gate, generation, text_pass))
    rows.append(row_of("these four homes together", joined(every), gate, generation, text_pass))
    report.table(rows)
    captions = scene.captions(share, 9)
    index = used(scene, asked, 9)
    tagged = scene.world.answer(asked, captions=captions, tags=[index.search(text) for text in asked.words])
    named = scene.world.answer(scene.names, captions=captions)
    plain = scene.world.answer(asked, captions=captions)
    mixed = joined([plain, tagged, *[named] * round(len(asked.truth) / len(scene.names.truth))])
    kinds = {"captions": plain, "captions, a third tagged in use": tagged, "names": named, "mixed: equally often": mixed}
    report.text(f"One home, {share:.0%} of the pictures captioned:")
    report.table([HEADER, *(row_of(name, answers, gate, generation, text_pass) for name, answers in kinds.items())])
    for name, answers in kinds.items():
        simple, predicted = verdicts(gate, answers.methods)
        report.record("queries that end with the text pass", simple.mean(), case=name)
        report.record("MAP lost by the gate", np.where(simple, answers.guided - answers.text, 0.0).mean(), case=name)
        report.record("correlation of predicted with actual precision", pearson(predicted, answers.text), case=name)


def joined(parts: Sequence[Answers]) -> Answers:
    """Return the answers to all queries of several sets."""
    return replace(
        parts[0],
        text=np.concatenate([answers.text for answers in parts]),
        guided=np.concatenate([answers.guided for answers in parts]),
        methods=[methods for answers in parts for methods in answers.methods],
    )


def decision_ms(gate: GateModel, methods: Sequence[Sequence[Method]]) -> list[float]:
    """Return the milliseconds of each decision."""
    taken = []
    for lists in methods:
        started = time.perf_counter()
        gate.decide(lists)
        taken.append(1000 * (time.perf_counter() - started))
    return taken


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fit where asked to, then judge what ships."""
    with tempfile.TemporaryDirectory() as folder:
        data = Data(options.data, options.cache or Path(folder) / "cache", evidence=options.evidence)
        if options.ship:
            ship(data, options.threshold, report)
        gate, sure = GateModel.shipped(), Confidence.shipped()
        scene = data.validation()
        report.text(f"{scene.world.n} pictures of the validation part.")
        share = options.captioned
        settings(scene, gate, report, share=share, generation=options.generation_ms, text_pass=options.text_pass_ms)
        methods = scene.world.answer(scene.asked(4), captions=scene.captions(1.0, 9)).methods
        taken = decision_ms(gate, methods)
        report.record("decision", taken)
        report.record("decision, p95", float(np.percentile(taken, 95)))
        for learner in ("implicit", "implicit and feedback"):
            rows: list[tuple[str, ...]] = [
                ("tags", "when", "tags", "right", "simple", "MAP gate", "MAP text", "simple, same words", "MAP, same words")
            ]
            for seed in range(options.seeds):
                with Home(Path(folder) / f"{learner}-{seed}", scene) as home:
                    rows += stream(home, scene, gate, sure, share=share, feedback="feedback" in learner, seed=seed)
            report.text(f"{learner}:", table(rows))
        with Home(Path(folder) / "days", scene) as home:
            days = reinforcement(home, scene, gate, sure, share=share)
        report.text("Implicit tags alone, day by day:", table([DAYS, *days]))


def ship(data: Data, threshold: float | None, report: Report) -> None:
    """Fit both models anew and write what ships; `threshold` replaces the fitted one."""
    gate, gate_report, sure, sure_report = fit(data)
    if threshold is not None:
        gate = replace(gate, threshold=threshold)
    report.text(f"gate: {gate_report}", f"confidence: {sure_report}")
    SHIP_TO.mkdir(parents=True, exist_ok=True)
    gate.save_as(SHIP_TO / SHIPPED)
    (SHIP_TO / tags_model.SHIPPED).write_text(sure.to_json(), encoding="utf-8")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--cache", type=Path, help="keep vectors and bridges here between runs")
    parser.add_argument("--captioned", type=float, default=0.3, help="share of captioned pictures while tags are learnt")
    parser.add_argument("--generation-ms", type=float, default=1000.0, help="milliseconds that drawing guides takes")
    parser.add_argument("--text-pass-ms", type=float, default=25.0, help="milliseconds of a text pass; see query_latency")
    parser.add_argument(
        "--evidence", choices=["text", "guides", "none"], default="guides", help="where captions speak for their pictures"
    )
    parser.add_argument("--ship", action="store_true", help="fit anew and write what ships; else what ships is judged")
    parser.add_argument("--threshold", type=float, help="ship this one instead of the fitted one, as validation advises")
    parser.add_argument("--seeds", type=int, default=3)


BENCHMARK = Benchmark(
    name="gate",
    about=__doc__,
    figures=(
        Figure("queries that end with the text pass", "share"),
        Figure("MAP lost by the gate", "MAP", peer="guides for every query"),
        Figure("correlation of predicted with actual precision", "r"),
        Figure("decision", "ms"),
        Figure("decision, p95", "ms"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
