"""Quality of search with misspelt words and in other languages: the tables of docs/quality.md.

    python -m research.studies.query_words --data DIR [DIR ...] --cache DIR
        [--profile embedded] [--queries 1000] [--translations FILE.tsv]

True words of six kinds (`research/data/true_words.txt`) are checked alone: none should be changed. A bridge of seed 0,
trained on the first parts of the sets, is measured on the third part of the first set; the cache of the benchmark `quality`
saves its training. One caption a picture is asked as written, with a slip of one letter in one word of three letters or more,
and corrected. `--translations` names a table with the columns file, en, de, zh and so on: captions of the third parts with
translations of them. Each language is asked of the third parts of all sets together, by a bridge of each seed.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import string
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report

from lodestone.backbones.base import BackboneOutputs
from lodestone.catalog.records import TagRecord
from lodestone.config.profiles import find_profile
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.query.words.checker import QueryChecker
from lodestone.query.words.language import foreign_language
from lodestone.retrieval.metrics import first_ranks
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone_eval.compare import bootstrap
from lodestone_eval.datasets.plain import split_by_hash
from research.fits.quality import Collection, Data, read_data, read_table, score, trained
from research.fits.space_weights import fuse

_WORD = re.compile(r"[A-Za-z]{3,}")
_TRUE_WORDS = Path(__file__).parents[1] / "data" / "true_words.txt"


class NoCaptions:
    """Catalog of a collection without captions, tags and folders, so that corrections know nothing of the pictures."""

    def corpus_ids(self, names: frozenset[str]) -> dict[str, str]:  # noqa: ARG002  (a contract)
        """Return an empty mapping: there are no corpora."""
        return {}

    def captioned_images(self, corpus_id: str | None = None) -> Iterator[tuple[str, list[str]]]:  # noqa: ARG002
        """Yield nothing, as no picture has a caption."""
        return iter(())

    def filing_names(self, corpus_id: str | None = None, *, most: int) -> list[str]:  # noqa: ARG002
        """Return an empty list, as no picture is in a folder."""
        return []

    def positions(self, corpus_id: str | None = None, *, most: int) -> list[tuple[float, float]]:  # noqa: ARG002
        """Return an empty list, as no picture has a position."""
        return []

    def list_tags(
        self,
        *,
        corpus_id: str | None = None,  # noqa: ARG002
        source: str | None = None,  # noqa: ARG002
        limit: int = 100,  # noqa: ARG002
    ) -> list[TagRecord]:
        """Return an empty list, as no picture has a tag."""
        return []


def slip(text: str, rng: random.Random) -> str:
    """Return a text with one letter of one word dropped, added, replaced, or swapped with the next."""
    match = rng.choice(list(_WORD.finditer(text)))
    word = slipped = match.group()
    while slipped.lower() == word.lower():
        place, letter = rng.randrange(len(word)), rng.choice(string.ascii_lowercase)
        before, after = word[:place], word[place + 1 :]
        slipped = rng.choice([before + after, before + letter + word[place:], before + letter + after])
        if after and not rng.randrange(4):
            slipped = before + after[0] + word[place] + after[1:]
    return text[: match.start()] + slipped + text[match.end() :]


def true_words() -> dict[str, list[str]]:
    """Return kind -> words that no correction should change."""
    lines = [line for line in _TRUE_WORDS.read_text("utf-8").splitlines() if not line.startswith("#")]
    _, *blocks = re.split(r"^\[(\w+)\]$", "\n".join(lines), flags=re.MULTILINE)
    return dict(zip(blocks[::2], map(str.split, blocks[1::2]), strict=True))


class Gallery:
    """Pictures that no bridge has seen, searched by one bridge and label matching.

    Args:
        data: What `quality` is measured on.
        pictures: Outputs of the pictures that are searched.
        weights: The bridge.
    """

    def __init__(self, data: Data, pictures: BackboneOutputs, weights: BridgeWeights) -> None:
        self._data, self._pictures, self._weights = data, pictures, weights
        self._rule = SpaceWeights.from_header(weights.query_weights)

    def hits(self, texts: Sequence[str], truth: np.ndarray) -> np.ndarray:
        """Return (queries,) float: whether the right picture is among the first ten."""
        asked = Collection(self._pictures, self._data.encoder.encode(texts), truth)
        queries = score(self._data.labels, self._weights, asked)
        return (first_ranks(fuse(queries, self._rule), truth) <= 10).astype(float)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure slips with and without correction, and translations where a table of them is given."""
    context = ModelContext(cache=ModelCache(options.cache / "models"), threads=2)
    profile = find_profile(options.profile[0])
    options.cache.mkdir(parents=True, exist_ok=True)
    data = read_data(options, report, context, options.cache)
    bridges = [trained(data, profile, seed=seed, cache=options.cache) for seed in range(options.seeds)]
    tables = [read_table(folder / "captions.tsv", "caption") for folder in options.data]
    parts = [split_by_hash(file for file, _ in captions).test for captions in tables]
    gallery = Gallery(data, next(iter(data.galleries.values())).outputs, bridges[0])
    checker = QueryChecker(data.encoder, NoCaptions)
    _measure_true_words(report, checker)
    _measure_slips(options, report, checker=checker, gallery=gallery, captions=tables[0], files=parts[0])
    if options.translations:
        galleries = [Gallery(data, data.test.outputs, weights) for weights in bridges]
        _measure_translations(options.translations, report, galleries, [file for files in parts for file in files])


def _measure_true_words(report: Report, checker: QueryChecker) -> None:
    rows = [["true words", "number", "changed"]]
    for kind, words in true_words().items():
        checked = [(word, checker.check(word).text) for word in words]
        changed = [f"{word} to {text}" for word, text in checked if text != word]
        rows.append([kind, str(len(words)), ", ".join([str(len(changed)), *changed])])
        report.record("true words changed", len(changed), case=kind)
    report.table(rows)


def _measure_slips(
    options: argparse.Namespace,
    report: Report,
    *,
    checker: QueryChecker,
    gallery: Gallery,
    captions: list[tuple[str, str]],
    files: Sequence[str],
) -> None:
    by_file: dict[str, list[str]] = {}
    for file, caption in captions:
        by_file.setdefault(file, []).append(caption)
    for seed in range(options.seeds):
        rng = random.Random(seed)  # noqa: S311 - choices that can be repeated
        truth = np.arange(len(files))[: options.queries]
        right = [rng.choice(by_file[files[row]]) for row in truth]
        slipped = [slip(text, rng) for text in right]
        checker.check("warm up")
        started = time.perf_counter()
        corrected = [checker.check(text).text for text in slipped]
        spent = (time.perf_counter() - started) / len(slipped) * 1000
        unharmed = [checker.check(text).text for text in right]
        forms = {"as written": right, "with a slip": slipped, "corrected": corrected, "as written, checked": unharmed}
        hits = {name: gallery.hits(texts, truth) for name, texts in forms.items()}
        rows = [["query", "R@10", "change"]]
        for name, values in hits.items():
            change = bootstrap(values - hits["as written"])
            rows.append([name, f"{values.mean():.3f}", f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"])
            report.record("R@10", [float(values.mean())], case=f"seed {seed}, {name}")
        restored = np.mean([text.lower() == wanted.lower() for text, wanted in zip(corrected, unharmed, strict=True)])
        report.text(
            f"seed {seed}: {len(truth)} queries; a check takes {spent:.2f} ms; {restored:.3f} of the slips are restored exactly"
        )
        report.table(rows)


def _measure_translations(table: Path, report: Report, galleries: Sequence[Gallery], files: Sequence[str]) -> None:
    with table.open(encoding="utf8", newline="") as stream:
        asked = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    place = {file: row for row, file in enumerate(files)}
    truth = np.array([place[row["file"]] for row in asked])
    first, *others = [name for name in asked[0] if name != "file"]
    hits = {}
    rows = [["language", f"R@10 of {len(asked)} (least to most of the seeds)", f"of what {first} finds", "recognised as"]]
    for language in (first, *others):
        texts = [row[language] for row in asked]
        codes = Counter((found.code if (found := foreign_language(text)) else "en") for text in texts)
        of_seeds = np.stack([gallery.hits(texts, truth) for gallery in galleries])
        shares = [float(share) for share in of_seeds.mean(1)]
        hits[language] = of_seeds.mean(0)
        of_first = ratio(hits[language], hits[first]) if language != first else ""
        rows.append([language, f"{np.mean(shares):.3f} ({min(shares):.3f} to {max(shares):.3f})", of_first, str(dict(codes))])
        report.record("R@10", shares, case=f"language {language}")
    report.table(rows)


def ratio(part: np.ndarray, whole: np.ndarray, *, rounds: int = 2000) -> str:
    """Return the ratio of two means over the same queries with its 95 % bootstrap interval over queries."""
    rows = np.random.default_rng(0).integers(0, len(part), (rounds, len(part)))
    low, high = np.quantile(part[rows].mean(1) / np.maximum(whole[rows].mean(1), 1 / len(part)), (0.025, 0.975))
    return f"{part.mean() / whole.mean():.2f} [{low:.2f}, {high:.2f}]"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--profile", nargs=1, default=["embedded"])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--translations", type=Path)
    parser.set_defaults(names=None)


BENCHMARK = Benchmark(
    name="query_words",
    about=__doc__,
    figures=(Figure("R@10", "share"), Figure("true words changed", "count")),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
