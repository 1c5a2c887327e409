"""What is compared? Baselines, the full loop, and the full loop without one of its parts, each as fields of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lodestone.errors import UnknownNameError

TEXT: Final = "text"
CAPTIONS: Final = "captions"
REWRITE: Final = "rewrite"
FULL: Final = "full"
BASELINES: Final = (TEXT, CAPTIONS, REWRITE, FULL)
PARTS: Final = ("guides", "embedders", "outliers", "gate", "adaptive", "trust", "tags")

_TEXT_PASS: Final[dict[str, Any]] = {"guides": 0, "gate": False, "outliers": False, "adaptive": False}
_FULL_LOOP: Final[dict[str, Any]] = {"gate": True, "outliers": True, "adaptive": True}
_WITHOUT: Final[dict[str, dict[str, Any]]] = {
    "guides": {"guides": 0},
    "outliers": {"outliers": False},
    "gate": {"gate": False},
    "adaptive": {"adaptive": False},
    "trust": {"trust": False},
    "tags": {"tags": False},
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to answer.

    Attributes:
        name: As in the report.
        about: In a few words.
        method: engine: `request` is asked of the engine; rewrite: the same, in a language model's words; captions: no engine.
        request: Fields of `SearchRequest` besides the query.
        against: The configuration that it is compared with; empty for none.
        skipped: Why it is not run; None when it is.
    """

    name: str
    about: str
    method: Literal["engine", "rewrite", "captions"] = "engine"
    request: Mapping[str, Any] = field(default_factory=dict)
    against: str = TEXT
    skipped: str | None = None


def make_configurations(
    run: Sequence[str],
    ablate: Sequence[str],
    *,
    spaces: Sequence[str],
    no_captions: str | None = None,
    no_rewriting: str | None = None,
) -> list[Configuration]:
    """The configurations to run, the text pass first: it tells which queries are hard.

    Args:
        run: Names of `BASELINES`; empty for all.
        ablate: Names of `PARTS`; each gives the full loop without it, `embedders` each space alone.
        spaces: The profile's spaces.
        no_captions: Why there is no caption baseline; None when there is.
        no_rewriting: Why queries are not rewritten; None when they are.

    Raises:
        UnknownNameError: no such baseline or part.
    """
    check_names(run, ablate)
    every = {
        TEXT: Configuration(TEXT, "the text pass alone", request=_TEXT_PASS, against=""),
        CAPTIONS: Configuration(CAPTIONS, "captions and the text encoder alone", method="captions", skipped=no_captions),
        REWRITE: Configuration(
            REWRITE, "the text pass, the query rewritten by a language model", "rewrite", _TEXT_PASS, skipped=no_rewriting
        ),
        FULL: Configuration(FULL, "everything on", request=_FULL_LOOP),
    }
    wanted = {TEXT, *(run or BASELINES), *([FULL] if ablate else [])}
    made = [one for name, one in every.items() if name in wanted]
    for part in dict.fromkeys(ablate):
        made += _alone(spaces) if part == "embedders" else [_without(part)]
    return made


def check_names(run: Sequence[str], ablate: Sequence[str]) -> None:
    """Raise `UnknownNameError` for what is no configuration, or no part."""
    for given, known, kind in ((run, BASELINES, "configuration"), (ablate, PARTS, "part")):
        for name in given:
            if name not in known:
                raise UnknownNameError.among(kind, name, list(known))


def _without(part: str) -> Configuration:
    return Configuration(f"full - {part}", f"everything on but {part}", request={**_FULL_LOOP, **_WITHOUT[part]}, against=FULL)


def _alone(spaces: Sequence[str]) -> list[Configuration]:
    return [
        Configuration(
            f"full, {space} alone", "everything on, in one space", request={**_FULL_LOOP, "spaces": [space]}, against=FULL
        )
        for space in spaces
    ]
