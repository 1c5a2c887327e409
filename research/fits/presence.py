"""Confidence of answers: fitted on validation photos, measured on photos and queries that nothing was fitted on.

    python -m research.fits.presence --data DIR [DIR ...] [--names DIR] [--profile NAME] [--cache DIR]
        [--ship --drawings DIR]

Each DIR holds `captions.tsv` (columns file, caption) and `images/`; the folder of `--names` holds `names.tsv` (columns file,
name) and `images/`. Each set is split by `lodestone_eval.datasets.plain`: a bridge is trained on the first parts (by the
benchmark `quality`, whose cache saves it), the model is fitted to collections cut from the second parts and to the
demonstration's drawings, which are written to the folder of `--drawings` (presence_data.py, presence_lengths.py), and the
figures are of the third parts and of the named photos. Nothing is fitted on either. AUROC is the probability that a query
whose picture is there gets a higher confidence than one whose picture is not; the peers are each space's best cosine.
`--ship` writes the profile's file of data/presence/; otherwise what ships is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report
from scipy.optimize import minimize
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import roc_auc_score

from lodestone.config.profiles import find_profile
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.deciding.presence import CAPTION_SIGN, PresenceModel, SignTerm, Usual
from lodestone.retrieval.calibration import SAMPLE
from lodestone.spaces.bridge_arrays import BridgeInputs
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.text_encoders.base import TextEncoder
from lodestone.training.classes import TEMPLATES
from lodestone_cli.demo.pictures import write_pictures
from research.fits.presence_data import UNLIKE, Asked, Fitting, Gallery, Judged, absent_queries, random_letters
from research.fits.presence_lengths import ABSENT, LENGTHS, PRESENT, Lengths
from research.fits.quality import Collection, load, read_by, read_data, read_table, trained

SHIP_TO: Final = Path(__file__).resolve().parents[2] / "core" / "lodestone" / "data" / "presence"
PROFILES: Final = ("embedded", "embedded-large", "embedded-multilingual")
SIZES: Final = ((12, 12), (40, 6), (120, 3), (300, 2), (500, 2))
EACH: Final = 60  # queries of every length, present and absent, that a collection is asked
FALSE_ALARMS: Final = 0.08  # share of the present queries, of every length alike, that are told that there is probably nothing
# The others never speak against presence.
FREE: Final = ("attainable", "bridge.above", "bridge.named", "familiarity", "named", "similarity", "size", "strange")
PENALTY: Final = 1e-3  # of the squared weights, beside the mean loss
EASED: Final = 0.6  # of the slope by size: with all of it, small collections tell hardly any absence
THRESHOLD_TERMS: Final = ("size", "attainable")  # what the threshold depends on
SHARES: Final = {  # of each kind of query among the present or the absent ones, which count half each in the fit
    **{PRESENT + length: 0.07 for length in LENGTHS},
    "name": 0.2,
    "noun": 0.02,
    **{ABSENT + length: 0.05 for length in LENGTHS},
    "own": 0.2,
    "class": 0.02,
    "topic": 0.02,
    "letters": 0.3,
    "foreign caption": 0.06,
    "foreign name": 0.02,
    "unsaid class": 0.06,
}
NOTICE: Final = {
    "data": "Flickr8k, official training split (Hodosh et al., 2013), and 2,833 photos of COCO (Lin et al., 2014): the "
    "validation parts; 856 drawings of OpenMoji",
    "licence_notice": "Flickr8k is for research use; numbers learnt from it carry that notice. COCO's captions are CC BY 4.0. "
    "OpenMoji is CC BY-SA 4.0",
}


def weights_of(table: np.ndarray, present: np.ndarray, weights: np.ndarray, lowest: Sequence[float | None]) -> np.ndarray:
    """Return (signs + 1,) intercept and weights of a logistic model by penalised weighted maximum likelihood.

    Args:
        table: (q, signs) standardised signs.
        present: (q,) whether what was asked is there.
        weights: (q,) weights that sum to one.
        lowest: Lower bound of each sign's weight; None where it may have any.
    """

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        odds = parameters[0] + table @ parameters[1:]
        error = weights * (1 / (1 + np.exp(-odds)) - present)
        value = (weights * (np.logaddexp(0, odds) - present * odds)).sum() + PENALTY * (parameters[1:] ** 2).sum()
        return float(value), np.r_[error.sum(), error @ table + 2 * PENALTY * parameters[1:]]

    bounds = [(None, None), *((low, None) for low in lowest)]
    found = minimize(loss, np.zeros(len(bounds)), jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 3_000})
    return np.asarray(found.x)


def fit(parts: Sequence[Judged], usual: dict[str, Usual]) -> PresenceModel:
    """Fit a logistic model by weighted maximum likelihood, and the low quantile of its odds for present queries."""
    values = [values for judged in parts for values in judged.signs]
    names = sorted(values[0])
    table = np.array([[row[name] for name in names] for row in values])
    present = np.concatenate([judged.present for judged in parts])
    kinds = np.concatenate([judged.kinds for judged in parts])
    weights = np.sum([(kinds == kind) * share / max((kinds == kind).sum(), 1) for kind, share in SHARES.items()], axis=0)
    weights = np.where(present, weights / weights[present].sum(), weights / weights[~present].sum())
    mean, spread = table.mean(0), np.maximum(table.std(0), 1e-6)
    standard = (table - mean) / spread
    fitted = weights_of(standard, present, weights / weights.sum(), [None if name in FREE else 0.0 for name in names])
    terms = {
        name: SignTerm(round(float(mean[row]), 5), round(float(spread[row]), 5), round(float(fitted[1 + row]), 5))
        for row, name in enumerate(names)
    }
    odds = fitted[0] + standard @ fitted[1:]
    asked = [PRESENT + length for length in LENGTHS]
    here = np.isin(kinds, asked)
    counts = {kind: (kinds == kind).sum() for kind in asked}
    share = np.array([1 / counts[kind] for kind in kinds[here]])
    columns = [names.index(name) for name in THRESHOLD_TERMS]
    moving = table[here][:, columns] - mean[columns]
    moving[:, THRESHOLD_TERMS.index("size")] = table[here, names.index("size")] - np.log2(1 + SAMPLE)
    low = QuantileRegressor(quantile=FALSE_ALARMS, alpha=0.0).fit(moving, odds[here], sample_weight=share / share.mean())
    slopes = dict(zip(THRESHOLD_TERMS, map(float, low.coef_), strict=True))
    return PresenceModel(
        intercept=round(float(fitted[0]), 5),
        terms=terms,
        usual=usual,
        threshold=round(float(1 / (1 + np.exp(-low.intercept_))), 3),
        threshold_slope=round(EASED * slopes.pop("size"), 4),
        threshold_terms={name: round(slope, 4) for name, slope in slopes.items()},
    )


def usual_backgrounds(photos: Collection, bridge: BridgeWeights, labels: LabelSpace) -> dict[str, Usual]:
    """Return the mean and the spread of captions' cosines with photos, mostly unrelated, in both spaces."""
    texts = photos.texts[::5]
    pairs = {
        "bridge": bridge.texts(texts) @ bridge.pictures(photos.outputs).T,
        "labels": labels.project_texts(texts) @ labels.project(photos.outputs).T,
    }
    return {
        space: Usual(round(float(scores.mean()), 4), round(float(scores.std(1).mean()), 4)) for space, scores in pairs.items()
    }


def area(present: Iterable[float], absent: Iterable[float]) -> float:
    """Return the area under the ROC curve."""
    high, low = list(present), list(absent)
    return float(roc_auc_score([1] * len(high) + [0] * len(low), high + low))


def interval(present: Sequence[float], absent: Sequence[float], *, samples: int = 200) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of `area`, over present and absent queries."""
    rng, high, low = np.random.default_rng(0), np.array(present), np.array(absent)
    areas = [area(rng.choice(high, len(high)), rng.choice(low, len(low))) for _ in range(samples)]
    return float(np.quantile(areas, 0.025)), float(np.quantile(areas, 0.975))


class Measuring:
    """Photos of a part, asked for what is there and for what is not."""

    def __init__(self, model: PresenceModel, report: Report) -> None:
        self._model, self._report = model, report
        self._rows: list[tuple[str, ...]] = [
            (
                "case",
                "present",
                "absent",
                "AUROC",
                "95 %",
                "bridge alone",
                "label matching alone",
                "told: present",
                "told: absent",
            )
        ]

    def case(self, name: str, present: Judged, absent: Judged) -> None:
        """Report one case: AUROC of the confidence and of each space alone, and the shares that are told `probably nothing`."""
        here, gone = ([self._model.confidence(row) for row in judged.signs] for judged in (present, absent))
        low, high = interval(here, gone)
        peers = [
            area((row[sign] for row in present.signs), (row[sign] for row in absent.signs))
            for sign in ("bridge.best", "labels.best")
        ]
        told = [float(np.mean([self._told(row) for row in judged.signs])) for judged in (present, absent)]
        self._rows.append(
            (
                name,
                f"{len(here):,}",
                f"{len(gone):,}",
                f"{area(here, gone):.3f}",
                f"[{low:.3f}, {high:.3f}]",
                *(f"{peer:.3f}" for peer in peers),
                *(f"{share:.1%}" for share in told),
            )
        )
        self._report.record("AUROC", area(here, gone), case=name)

    def _told(self, values: Mapping[str, float]) -> bool:
        return self._model.confidence(values) < self._model.threshold_at(values)

    def finish(self) -> None:
        """Print the table of all cases."""
        self._report.table(self._rows)


def of_kind(gallery: Gallery, vectors: np.ndarray, kind: str, *, present: bool) -> Judged:
    """Judge queries over a whole gallery without captions."""
    asked = Asked()
    asked.add(vectors, kind, present=present)
    return gallery.judge(asked, np.arange(gallery.size))


def joined(*parts: Judged) -> Judged:
    """Return the queries of several collections together."""
    return Judged(
        [values for judged in parts for values in judged.signs],
        np.concatenate([judged.present for judged in parts]),
        np.concatenate([judged.kinds for judged in parts]),
        0,
    )


def measure_photos(test: Gallery, encoder: TextEncoder, measuring: Measuring) -> Judged:
    """Ask the test photos for their own captions and for what they do not show; return the present queries."""
    captions = "\n".join(test.captions)
    queries = [query for query in absent_queries("test") if not query.in_any(captions)]
    present = of_kind(test, test.photos.texts, "caption", present=True)
    vectors = encoder.encode([query.words for query in queries])
    measuring.case(
        f"{len(queries)} absent queries over {test.size:,} photos", present, of_kind(test, vectors, "own", present=False)
    )
    letters = encoder.encode(random_letters(np.random.default_rng(1), 200))
    measuring.case("random letters", present, of_kind(test, letters, "letters", present=False))
    _measure_lengths(test, encoder, measuring)
    for size in (12, 100):
        rng, here, gone = np.random.default_rng(2), [], []
        for _ in range(2_000 // size):
            rows = np.sort(rng.permutation(test.size)[:size])
            asked, missing = Asked(), Asked()
            asked.add(
                test.photos.texts[[rng.choice(np.flatnonzero(test.photos.owner == row)) for row in rows]],
                "caption",
                present=True,
            )
            missing.add(vectors[rng.permutation(len(vectors))[:size]], "own", present=False)
            here.append(test.judge(asked, rows))
            gone.append(test.judge(missing, rows))
        measuring.case(f"the {len(queries)} over collections of {size} photos", joined(*here), joined(*gone))
    return present


def _measure_lengths(test: Gallery, encoder: TextEncoder, measuring: Measuring) -> None:
    """Ask collections of several sizes for texts of every length, present and absent ones of one style."""
    texts, rng, judged = Lengths(test, encoder), np.random.default_rng(3), []
    for size, times in ((12, 30), (100, 10), (400, 6), (1_000, 4)):
        for _ in range(times):
            rows = np.sort(rng.permutation(test.size)[: min(size, test.size)])
            judged.append(test.judge(texts.ask(rows, rng, 20 if size == 12 else EACH), rows))
    together = joined(*judged)
    for name, lengths in (
        *((length, (length,)) for length in LENGTHS),
        ("one and two words", LENGTHS[:2]),
        ("all lengths", LENGTHS),
    ):
        here, gone = (_of(together, [kind + length for length in lengths]) for kind in (PRESENT, ABSENT))
        measuring.case(f"{name}: captions of the collection; of other photos", here, gone)


def encoded_names(names: Sequence[str], encoder: TextEncoder) -> np.ndarray:
    """Return (templates, n, d) vectors of names in every template."""
    return np.stack([encoder.encode([template.format(name) for name in names]) for template in TEMPLATES])


def measure_crosswise(test: Gallery, objects: Gallery, encoder: TextEncoder, *, captions: Judged, measuring: Measuring) -> None:
    """Ask each collection for what the other one holds; the captions of `objects` are the names of what they show."""
    names = objects.captions
    texts = np.concatenate(encoded_names(names, encoder))
    own = of_kind(objects, texts, "name", present=True)
    said = "\n".join(test.captions).lower()
    unsaid = np.array([name.lower().split()[-1] not in said for name in names] * len(TEMPLATES))
    unlike = (test.photos.texts @ texts.T).max(1) < UNLIKE
    foreign_names = of_kind(test, texts[unsaid], "name", present=False)
    foreign = of_kind(objects, test.photos.texts, "caption", present=False)
    clear = replace(
        foreign,
        signs=[row for row, keep in zip(foreign.signs, unlike, strict=True) if keep],
        present=foreign.present[unlike],
        kinds=foreign.kinds[unlike],
    )
    measuring.case(f"{objects.size} named photos: their names; captions of the others", own, foreign)
    measuring.case("the same, captions unlike every name", own, clear)
    measuring.case(f"{test.size:,} photos: their captions; names that no caption has", captions, foreign_names)
    measuring.case("both directions together", joined(own, captions), joined(clear, foreign_names))


def named_photos(folder: Path, context: ModelContext, cache: Path, backbones: Sequence[str]) -> tuple[Collection, list[str]]:
    """Return the named photos and what they show."""
    table = read_table(folder / "names.tsv", "name")
    named = [(file, TEMPLATES[1].format(name)) for file, name in table]
    files = [file for file, _ in table]
    photos = load(context, cache, "names", rows=named, folder=folder / "images", names=files, backbones=backbones)
    return photos, [name for _, name in table]


def drawings(folder: Path | None, context: ModelContext, cache: Path, backbones: Sequence[str]) -> tuple[Collection, list[str]]:
    """Return those drawings of the demonstration whose names are hidden there, and their names; write them where needed."""
    if folder is None:
        raise SystemExit("--ship fits to drawings too. Give --drawings DIR.")
    pictures = write_pictures(folder)
    rows = [(path.name, name) for path, name in pictures.names.items() if path.parent == pictures.unnamed]
    files = [file for file, _ in rows]
    drawn = load(context, cache, "drawings", rows=rows, folder=pictures.unnamed, names=files, backbones=backbones)
    return drawn, [name for _, name in rows]


def measure(options: argparse.Namespace, report: Report) -> None:
    """Train the bridge, fit where asked to, then measure what ships."""
    cache = options.cache or Path(mkdtemp())
    cache.mkdir(parents=True, exist_ok=True)
    context = ModelContext(cache=ModelCache(cache / "models"), threads=1)
    profile = find_profile(options.profile)
    wanted = argparse.Namespace(data=options.data, profile=[profile.name], names=None)
    data = read_data(wanted, report, context, cache)
    inputs = BridgeInputs(profile.backbones)
    labels, encoder, seen_by = data.labels, data.encoder, inputs.backbones
    bridge = trained(data, profile, seed=0, cache=cache)

    def gallery(photos: Collection, words: Sequence[str], usual: dict[str, Usual]) -> Gallery:
        return Gallery(read_by(inputs, photos), words, bridge, labels, usual)

    if options.ship:
        usual = usual_backgrounds(read_by(inputs, data.validation), bridge, labels)
        photos = gallery(data.validation, data.validation.words, usual)
        cut = Fitting(photos, encoder, data.classes)
        fitted = [*cut.collections(SIZES), *_lengths(photos, encoder)]
        drawn, drawn_names = drawings(options.drawings, context, cache, seen_by)
        fitted += cut.across(gallery(drawn, drawn_names, usual), encoded_names(drawn_names, encoder), SIZES)
        made = fit(fitted, usual)
        figures = {"queries": sum(len(judged.signs) for judged in fitted), "false_alarms": FALSE_ALARMS}
        target = SHIP_TO / f"{options.profile}.json"
        target.write_text(replace(made, provenance={**NOTICE, "figures": figures}).to_json(), encoding="utf-8")
        report.text(f"threshold {made.threshold}; {CAPTION_SIGN} {made.terms[CAPTION_SIGN].weight}")
        own = Measuring(made, report)
        present = [kind for kind in SHARES if kind.startswith(PRESENT)] + ["name"]
        for kind in SHARES:
            if kind not in {*present, "noun"}:
                here, gone = (joined(*(_of(judged, kinds) for judged in fitted)) for kinds in (present, (kind,)))
                own.case(f"validation (fitted): {kind}", here, gone)
        own.finish()
    model = PresenceModel.shipped(options.profile)
    if model is None or options.fit_only:
        return
    measuring = Measuring(model, report)
    test = gallery(data.test, data.test.words, dict(model.usual))
    captions = measure_photos(test, encoder, measuring)
    if options.names:
        objects = gallery(*named_photos(options.names, context, cache, seen_by), dict(model.usual))
        measure_crosswise(test, objects, encoder, captions=captions, measuring=measuring)
    measuring.finish()


def _lengths(photos: Gallery, encoder: TextEncoder) -> list[Judged]:
    """Return judged queries of every length over collections of several sizes, half of them undescribed."""
    texts, rng, judged = Lengths(photos, encoder), np.random.default_rng(1), []
    for size, times in SIZES:
        for number in range(2 * times):
            rows = np.sort(rng.permutation(photos.size)[:size])
            described = rng.permutation(rows)[: round((0.0, 0.0, 0.3, 1.0)[number % 4] * len(rows))]
            judged.append(photos.judge(texts.ask(rows, rng, min(EACH, 2 * size)), rows, described=described))
    return judged


def _of(judged: Judged, kinds: Sequence[str]) -> Judged:
    kept = np.isin(judged.kinds, kinds)
    values = [row for row, keep in zip(judged.signs, kept, strict=True) if keep]
    return Judged(values, judged.present[kept], judged.kinds[kept], judged.size)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--names", type=Path)
    parser.add_argument("--profile", choices=PROFILES, default="embedded")
    parser.add_argument("--drawings", type=Path, help="where the demonstration's drawings are, or are written; for --ship")
    parser.add_argument("--cache", type=Path, help="keep vectors and bridges here between runs")
    parser.add_argument("--ship", action="store_true", help="fit anew and write what ships; else what ships is judged")
    parser.add_argument("--fit-only", action="store_true", help="do not look at the test part")


BENCHMARK = Benchmark(
    name="presence",
    about=__doc__,
    figures=(Figure("AUROC", "area", peer="each space's best cosine alone"),),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
