"""Configurations that an evaluation compares, as fields of a request.

They are baselines, what users get (`full`), every part forced on (`everything`), and either of these without one part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lodestone.errors import UnknownNameError
from lodestone_eval.needle_variants import (
    ETA,
    NEEDLE,
    NEEDLE_NAMES,
    NEEDLE_PARTS,
    NeedleSetup,
    NeedleVariant,
    needle_variants,
)

TEXT: Final = "text"
CAPTIONS: Final = "captions"
REWRITE: Final = "rewrite"
FULL: Final = "full"
EVERYTHING: Final = "everything"
BASELINES: Final = (TEXT, CAPTIONS, REWRITE, FULL)
CONFIGURATIONS: Final = (*BASELINES, EVERYTHING)
PARTS: Final = ("guides", "embedders", "outliers", "gate", "adaptive", "trust", "tags")
RUNNABLE: Final = (*CONFIGURATIONS, *NEEDLE_NAMES)
ABLATABLE: Final = (*PARTS, *NEEDLE_PARTS)

_TEXT_PASS: Final[dict[str, Any]] = {"guides": 0, "gate": False, "outliers": False, "adaptive": False}
_EVERYTHING: Final[dict[str, Any]] = {"gate": True, "outliers": True, "adaptive": True}
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
    """Describes one way to answer.

    Attributes:
        name: Name in the report.
        about: Short description.
        method: engine: `request` is sent to the engine; rewrite: the same, with queries rewritten by a language model;
            captions: no engine is used.
        request: Fields of `SearchRequest` besides the query.
        against: Name of the configuration that it is compared with; empty for none.
        skipped: Reason why it is not run; None when it is run.
        needle: The form of NEEDLE's ranking that answers; None for the home's own engine.
    """

    name: str
    about: str
    method: Literal["engine", "rewrite", "captions"] = "engine"
    request: Mapping[str, Any] = field(default_factory=dict)
    against: str = TEXT
    skipped: str | None = None
    needle: NeedleVariant | None = None

    @property
    def learns(self) -> bool:
        """Return whether each answer depends on feedback on those before, so that queries are asked one after the other."""
        return self.needle is not None and self.needle.eta is not None


def make_configurations(
    run: Sequence[str],
    ablate: Sequence[str],
    *,
    spaces: Sequence[str],
    no_captions: str | None = None,
    no_rewriting: str | None = None,
    needle: NeedleSetup | None = None,
    eta: float = ETA,
    pairs: bool = False,
) -> list[Configuration]:
    """Return the configurations to run, with the text pass first, because its result decides which queries are hard.

    Args:
        run: Names in `RUNNABLE`; empty for all of `BASELINES`.
        ablate: Names in `ABLATABLE`. One of `PARTS` gives `full` without it, and `embedders` gives each space alone. Parts that
            a profile or the settings may have off (outliers, gate, adaptive) are left out of `everything`, where they are on.
            One of `NEEDLE_PARTS` varies NEEDLE's ranking.
        spaces: The profile's spaces.
        no_captions: Reason why there is no caption baseline; None when there is one.
        no_rewriting: Reason why queries are not rewritten; None when they are.
        needle: What NEEDLE's ranking is made of; None where it cannot be asked for.
        eta: Learning rate of `needle-trust`.
        pairs: Whether the benchmark consists of pairs.

    Raises:
        UnknownNameError: there is no such baseline or part.
    """
    check_names(run, ablate)
    baselines = {
        TEXT: Configuration(TEXT, "the text pass alone", request=_TEXT_PASS, against=""),
        CAPTIONS: Configuration(CAPTIONS, "captions and the text encoder alone", method="captions", skipped=no_captions),
        REWRITE: Configuration(
            REWRITE, "the text pass, the query rewritten by a language model", "rewrite", _TEXT_PASS, skipped=no_rewriting
        ),
        FULL: Configuration(FULL, "what users get: the defaults of profile and settings"),
        EVERYTHING: Configuration(EVERYTHING, "everything on, also what is off by default", request=_EVERYTHING),
    }
    variants = needle_variants(run, ablate, needle or NeedleSetup(), eta=eta, pairs=pairs)
    # Outliers are a part of both loops: where NEEDLE's ranking alone was asked for, the other loop is not run for them.
    parts = [part for part in dict.fromkeys(ablate) if part in PARTS]
    if variants and run and not {FULL, EVERYTHING} & set(run):
        parts = [part for part in parts if part != "outliers"]
    wanted = {TEXT, *(run or BASELINES), *(_base_of(part) for part in parts)}
    configurations = [configuration for name, configuration in baselines.items() if name in wanted]
    for part in parts:
        configurations += _alone(spaces) if part == "embedders" else [_without(part)]
    return configurations + [
        Configuration(
            name,
            about,
            request=variant.request(),
            against=TEXT if name == NEEDLE else NEEDLE,
            skipped=skipped,
            needle=variant,
        )
        for name, about, variant, skipped in variants
    ]


def check_names(run: Sequence[str], ablate: Sequence[str]) -> None:
    """Check names of configurations and parts.

    Raises:
        UnknownNameError: a name is no configuration, or no part.
    """
    for given, known, kind in ((run, RUNNABLE, "configuration"), (ablate, ABLATABLE, "part")):
        for name in given:
            if name not in known:
                raise UnknownNameError.among(kind, name, list(known))


def _without(part: str) -> Configuration:
    base = _base_of(part)
    forced = _EVERYTHING if base == EVERYTHING else {}
    return Configuration(f"{base} - {part}", f"{base} without {part}", request={**forced, **_WITHOUT[part]}, against=base)


def _base_of(part: str) -> str:
    """Return the configuration that a part is left out of: one in which it is on, whatever profile and settings say."""
    return EVERYTHING if part in _EVERYTHING else FULL


def _alone(spaces: Sequence[str]) -> list[Configuration]:
    return [
        Configuration(f"full, {space} alone", "what users get, in one space", request={"spaces": [space]}, against=FULL)
        for space in spaces
    ]
