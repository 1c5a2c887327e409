"""The confidence is fitted on the validation photos alone: its fit sees no photo of the test part and no named photo."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.harness import Report
from research.fits import presence, quality
from research.fits.presence_data import absent_queries
from research.fits.quality import Collection

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.query.deciding.presence import PresenceModel, SignTerm
from lodestone_eval.datasets.plain import split_by_hash

ROW = OutputKey("efficientnet-lite0", "features")
FILES = [f"{number}.jpg" for number in range(60)]


class Seen:
    """What a fit was given: rows of photos for the bridge, and of those that it is fitted to."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.trained: list[int] = []
        self.fitted: list[int] = []


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Seen:
    """Replace models and numbers; which photos go where is left as it is. Pictures' features are their row."""
    seen = Seen()
    vectors = np.zeros((2, 4), np.float32)
    encoder = SimpleNamespace(version="1", encode=lambda texts: np.zeros((len(texts), 4)), warm_up=lambda: None)

    def load(_context: object, _cache: Path, kind: str, *, names: list[str], **_others: object) -> Collection:
        seen.loaded.append(kind)
        rows = np.arange(len(names))
        return Collection(BackboneOutputs({ROW: rows[:, None].astype(np.float32)}), np.zeros((len(names), 4)), rows)

    def trained(data: quality.Data, *_others: object, **_more: object) -> None:
        seen.trained += data.train.outputs[ROW][:, 0].astype(int).tolist()

    def fit(parts: list[SimpleNamespace], _usual: object) -> PresenceModel:
        seen.fitted += [int(row) for part in parts for row in part.photos.outputs[ROW][:, 0]]
        return PresenceModel(0.0, {"captions": SignTerm(0.0, 1.0, 1.0)}, {}, threshold=0.3)

    class Fitting:
        def __init__(self, gallery: SimpleNamespace, *_others: object) -> None:
            self.judged = SimpleNamespace(photos=gallery.photos, signs=[])

        def collections(self, _sizes: object) -> list[SimpleNamespace]:
            return [self.judged]

        def across(self, _drawings: object, *_others: object) -> list[SimpleNamespace]:
            return [self.judged]

    def no_names(*_arguments: object) -> None:
        raise AssertionError("the named photos were read")

    drawn = load(None, tmp_path, "drawings", names=["a.png"])
    seen.loaded.clear()
    replacements = {
        quality: {
            "read_table": lambda _path, _column: [(file, "a caption") for file in FILES],
            "load": load,
            "LabelSpace": lambda _context, **_others: encoder,
            "make_text_encoder": lambda _name, _context: encoder,
            "translations_by": lambda _encoder: None,
            "cached": lambda *_others: {"texts": vectors},
        },
        presence: {
            "trained": trained,
            "read_by": lambda _inputs, photos: photos,
            "usual_backgrounds": lambda photos, *_others: seen.fitted.extend(photos.outputs[ROW][:, 0].astype(int).tolist()),
            "Gallery": lambda photos, *_others: SimpleNamespace(photos=photos),
            "Fitting": Fitting,
            "_lengths": lambda gallery, _encoder: [SimpleNamespace(photos=gallery.photos, signs=[])],
            "drawings": lambda *_others: (drawn, ["a"]),
            "named_photos": no_names,
            "fit": fit,
            "SHIP_TO": tmp_path,
            "SHARES": {},
        },
    }
    for module, names in replacements.items():
        for name, replacement in names.items():
            monkeypatch.setattr(module, name, replacement)
    return seen


def test_the_fit_sees_validation_photos_alone_and_no_named_photo(seen: Seen, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    presence.add_options(parser)
    where = ["--data", str(tmp_path), "--names", str(tmp_path), "--cache", str(tmp_path / "cache")]
    options = parser.parse_args([*where, "--drawings", str(tmp_path), "--ship", "--fit-only"])
    presence.measure(options, _Report())
    split = split_by_hash(FILES)
    first, second = len(split.train), len(split.train) + len(split.validation)
    assert seen.trained == list(range(first)), "the bridge is taught the training part"
    assert set(seen.fitted) == set(range(first, second)), "the model is fitted to the validation part"
    assert "names" not in seen.loaded
    assert (tmp_path / "embedded.json").exists()


class _Report(Report):
    def __init__(self) -> None: ...

    def text(self, *_parts: object) -> None: ...

    def table(self, *_parts: object) -> None: ...


def test_absent_queries_of_the_test_are_not_those_of_the_fit() -> None:
    fitted, tested = ({query.words.lower() for query in absent_queries(part)} for part in ("fit", "test"))
    assert fitted and len(tested) == 200
    assert not fitted & tested
