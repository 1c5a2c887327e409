"""What is the complexity gate worth, and what do tags teach it? Fit on training folds, figures on validation data.

    python -m benchmarks.gate --data DIR [--cache DIR] [--captioned 0.3] [--generation-ms 1000] [--ship]

DIR holds `captions.tsv` (columns file, caption; five rows a file) and `images/`. Prints how well the text pass's average
precision is predicted; how many queries the gate lets end with the text pass, at which loss; how latency falls; and what
happens when 500 queries leave tags: shares and mean average precision before, after, and after undoing them. `--ship` writes
data/gate/.

Rankings are computed on dense vectors (benchmarks/gate_world.py), tags go through the real catalog, outbox, store and search.
Guides are exemplars, which cost nothing here: the time that a generator would take is `--generation-ms`, so the latency is
plumbing: measured text passes plus that time for the queries that the gate calls complex.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.gate_data import SHARES, Data, Scene, judged, observations, used
from benchmarks.gate_stream import Home, reinforcement, stream
from benchmarks.gate_world import Answers
from benchmarks.machine import describe_machine, table
from lodestone.evaluation.metrics import bootstrap
from lodestone.query.gate import SHIPPED, GateModel, Method
from lodestone.tags import confidence as tags_model
from lodestone.tags.confidence import Confidence
from lodestone.training.complexity import GateReport, Observation, fit_gate, pearson
from lodestone.training.confidence import ConfidenceReport, JudgedAnswer, fit_confidence

SHIP_TO = Path(__file__).parent.parent / "core" / "lodestone" / "data" / "gate"
NOTICE = {
    "data": "Flickr8k, official training split (Hodosh et al., 2013): the part for training of benchmarks/gate.py",
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
    """Both models, from the training part."""
    seen: list[Observation] = []
    answers: list[JudgedAnswer] = []
    for number, scene in enumerate(data.folds()):
        seen += observations(scene, number)
        asked = scene.asked(4)
        for share in SHARES[1:]:
            answers += judged(scene.world.answer(asked, captions=scene.captions(share, number)), asked)
    gate, gate_report = fit_gate(seen, provenance=NOTICE)
    sure, sure_report = fit_confidence(answers, provenance=NOTICE)
    return replace(gate, provenance={**NOTICE, "figures": gate_report.as_dict()}), gate_report, sure, sure_report


def verdicts(gate: GateModel, methods: Sequence[Sequence[Method]]) -> tuple[np.ndarray, np.ndarray]:
    """(q,) whether simple, and (q,) predicted average precision."""
    decided = [gate.decide(one) for one in methods]
    return np.array([one.verdict == "simple" for one in decided]), np.array([one.predicted_ap for one in decided])


def row_of(name: str, answers: Answers, gate: GateModel, generation: float, text_pass: float) -> tuple[str, ...]:
    """One line of the table of settings."""
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


def settings(scene: Scene, gate: GateModel, *, share: float, generation: float, text_pass: float) -> None:
    """The tables of homes and of the mixed set; `share` of the mixed set's pictures have captions."""
    rows: list[tuple[str, ...]] = [HEADER]
    asked, every = scene.asked(4), []
    for captioned in SHARES:
        every.append(scene.world.answer(asked, captions=scene.captions(captioned, 9)))
        rows.append(row_of(f"captions; {captioned:.0%} of the pictures captioned", every[-1], gate, generation, text_pass))
    rows.append(row_of("these four homes together", joined(every), gate, generation, text_pass))
    print(table(rows))
    captions = scene.captions(share, 9)
    index = used(scene, asked, 9)
    tagged = scene.world.answer(asked, captions=captions, tags=[index.search(text) for text in asked.words])
    named = scene.world.answer(scene.names, captions=captions)
    plain = scene.world.answer(asked, captions=captions)
    mixed = joined([plain, tagged, *[named] * round(len(asked.truth) / len(scene.names.truth))])
    kinds = {"captions": plain, "captions, a third tagged in use": tagged, "names": named, "mixed: equally often": mixed}
    print(f"\none home, {share:.0%} of the pictures captioned:")
    print(table([HEADER, *(row_of(name, answers, gate, generation, text_pass) for name, answers in kinds.items())]))


def joined(parts: Sequence[Answers]) -> Answers:
    """All queries of several sets."""
    return replace(
        parts[0],
        text=np.concatenate([one.text for one in parts]),
        guided=np.concatenate([one.guided for one in parts]),
        methods=[methods for one in parts for methods in one.methods],
    )


def decision_ms(gate: GateModel, methods: Sequence[Sequence[Method]]) -> float:
    """95th percentile of one decision, milliseconds."""
    taken = []
    for one in methods:
        started = time.perf_counter()
        gate.decide(one)
        taken.append(1000 * (time.perf_counter() - started))
    return float(np.percentile(taken, 95))


def main() -> None:
    """Fit, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="keep vectors and bridges here between runs")
    parser.add_argument("--captioned", type=float, default=0.3, help="share of captioned pictures while tags are learnt")
    parser.add_argument("--generation-ms", type=float, default=1000.0, help="what drawing guides takes")
    parser.add_argument("--text-pass-ms", type=float, default=25.0, help="what a text pass takes; benchmarks/query_latency.py")
    parser.add_argument(
        "--evidence", choices=["text", "guides", "none"], default="guides", help="where captions speak for their pictures"
    )
    parser.add_argument("--ship", action="store_true", help="fit anew and write what ships; else what ships is judged")
    parser.add_argument("--threshold", type=float, help="ship this one instead of the fitted one, as validation advises")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Data(arguments.data, arguments.cache or Path(folder) / "cache", evidence=arguments.evidence)
        if arguments.ship:
            gate, gate_report, sure, sure_report = fit(data)
            if arguments.threshold is not None:
                gate = replace(gate, threshold=arguments.threshold)
            print("gate:", gate_report, "\nconfidence:", sure_report)
            SHIP_TO.mkdir(parents=True, exist_ok=True)
            gate.save_as(SHIP_TO / SHIPPED)
            (SHIP_TO / tags_model.SHIPPED).write_text(sure.to_json(), encoding="utf-8")
        gate, sure = GateModel.shipped(), Confidence.shipped()
        scene = data.validation()
        settings(scene, gate, share=arguments.captioned, generation=arguments.generation_ms, text_pass=arguments.text_pass_ms)
        methods = scene.world.answer(scene.asked(4), captions=scene.captions(1.0, 9)).methods
        print(f"one decision takes {decision_ms(gate, methods):.2f} ms (95th percentile)\n")
        for learner in ("implicit", "implicit and feedback"):
            rows = [
                ("tags", "when", "tags", "right", "simple", "MAP gate", "MAP text", "simple, same words", "MAP, same words")
            ]
            for seed in range(arguments.seeds):
                with Home(Path(folder) / f"{learner}-{seed}", scene) as home:
                    rows += stream(
                        home, scene, gate, sure, share=arguments.captioned, feedback="feedback" in learner, seed=seed
                    )
            print(f"{learner}:\n{table(rows)}\n")
        with Home(Path(folder) / "days", scene) as home:
            days = reinforcement(home, scene, gate, sure, share=arguments.captioned)
        print(f"implicit tags alone, day by day:\n{table([DAYS, *days])}\n")
    print(f"{scene.world.n} pictures of the validation part; {describe_machine()}")


if __name__ == "__main__":
    main()
