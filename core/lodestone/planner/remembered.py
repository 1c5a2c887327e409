"""What did the last measurement of this machine say, and how old is it? One JSON file in the home, written by `plan --here`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lodestone.errors import ConfigurationError
from lodestone.planner.rates import DEFAULT_RATES, Rates

if TYPE_CHECKING:
    from lodestone.planner.calibrate import MachineCalibration

_NAME: Final = "measured-rates.json"
_DAY_S: Final = 86_400
_OLD_DAYS: Final = 90


@dataclass(frozen=True, slots=True)
class RateRecord:
    """What one measurement left.

    Attributes:
        measured_at: When, with its time zone.
        profile: Whose models.
        fixed_seconds: Of any run.
        seconds_an_image: Of each picture.
        megabytes: Mean file size of what was measured with.
        megapixels: Mean size of its pictures.
        decode: See `Rates.decode`.
        core_gmacs: See `Rates.core_gmacs`; 0 where the profile's models have no known work.
    """

    measured_at: datetime
    profile: str
    fixed_seconds: float
    seconds_an_image: float
    megabytes: float
    megapixels: float
    decode: float
    core_gmacs: float

    def age(self, now: datetime) -> str:
        """How long ago, in words; a clock that went back makes it new."""
        days = max((now - self.measured_at).total_seconds(), 0.0) / _DAY_S
        words = "today" if days < 1 else f"{days:.0f} days ago"
        return f"{words}: measure again" if days > _OLD_DAYS else words

    def rates(self, now: datetime) -> Rates:
        """`DEFAULT_RATES` with what was measured put in, and when."""
        said = f"measured on this machine, one core, {self.age(now)}"
        known = {"decode": said, **({"core_gmacs": said} if self.core_gmacs else {})}
        return replace(
            DEFAULT_RATES,
            decode=self.decode,
            decode_megapixels=self.megapixels,
            core_gmacs=self.core_gmacs or DEFAULT_RATES.core_gmacs,
            sources={**DEFAULT_RATES.sources, **known},
        )


def remember(home: Path, measured: MachineCalibration, *, profile: str, now: datetime) -> RateRecord:
    """Keep a measurement in a home, in place of the last one of any profile."""
    kept = RateRecord(
        measured_at=now.astimezone(UTC),
        profile=profile,
        fixed_seconds=measured.fixed_seconds,
        seconds_an_image=measured.seconds_an_image,
        megabytes=measured.megabytes,
        megapixels=measured.megapixels,
        decode=measured.rates.decode,
        core_gmacs=measured.rates.core_gmacs if "here" in measured.rates.source("core_gmacs") else 0.0,
    )
    home.mkdir(parents=True, exist_ok=True)
    partial = home / f".{_NAME}.{os.getpid()}"
    partial.write_text(json.dumps(asdict(kept), default=lambda moment: moment.isoformat(), indent=1), encoding="utf-8")
    partial.replace(home / _NAME)
    return kept


def recall(home: Path, *, profile: str) -> RateRecord | None:
    """The last measurement in a home; None where there is none with this profile's models.

    Raises:
        ConfigurationError: its file is damaged.
    """
    path = home / _NAME
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        numbers = {name: float(found[name]) for name in _NUMBERS}
        kept = RateRecord(datetime.fromisoformat(found["measured_at"]).astimezone(UTC), str(found["profile"]), **numbers)
        if not all(0 <= value < float("inf") for value in numbers.values()) or not kept.decode or not kept.megapixels:
            raise ValueError(f"numbers that no measurement gives: {numbers}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"the measured rates in {str(path)!r} cannot be read: {error!r}",
            hint="delete that file, or measure again with `lodestone plan --here FOLDER`",
        ) from error
    return kept if kept.profile == profile else None


_NUMBERS: Final = ("fixed_seconds", "seconds_an_image", "megabytes", "megapixels", "decode", "core_gmacs")
