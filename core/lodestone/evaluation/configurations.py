"""Configurations that an evaluation compares, as fields of a request.

They are baselines, the full loop, and the full loop without one of its parts.
"""

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
    """Describes one way to answer.

    Attributes:
        name: Name in the report.
        about: Short description.
        method: engine: `request` is sent to the engine; rewrite: the same, with queries rewritten by a language model;
            captions: no engine is used.
        request: Fields of `SearchRequest` besides the query.
        against: Name of the configuration that it is compared with; empty for none.
        skipped: Reason why it is not run; None when it is run.
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
    """Return the configurations to run, with the text pass first, because its result decides which queries are hard.

    Args:
        run: Names in `BASELINES`; empty for all.
        ablate: Names in `PARTS`; each gives the full loop without it, and `embedders` gives each space alone.
        spaces: The profile's spaces.
        no_captions: Reason why there is no caption baseline; None when there is one.
        no_rewriting: Reason why queries are not rewritten; None when they are.

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
        FULL: Configuration(FULL, "everything on", request=_FULL_LOOP),
    }
    wanted = {TEXT, *(run or BASELINES), *([FULL] if ablate else [])}
    configurations = [configuration for name, configuration in baselines.items() if name in wanted]
    for part in dict.fromkeys(ablate):
        configurations += _alone(spaces) if part == "embedders" else [_without(part)]
    return configurations


def check_names(run: Sequence[str], ablate: Sequence[str]) -> None:
    """Check names of configurations and parts.

    Raises:
        UnknownNameError: a name is no configuration, or no part.
    """
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
