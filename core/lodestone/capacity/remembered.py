"""Last calibration of this machine, kept in one JSON file in the home by `plan --here`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lodestone.capacity.rates import DEFAULT_RATES, Rates
from lodestone.durable_files import write_atomically
from lodestone.errors import ConfigurationError

if TYPE_CHECKING:
    from lodestone.capacity.calibrate import MachineCalibration

_NAME: Final = "measured-rates.json"
_DAY_S: Final = 86_400
_OLD_DAYS: Final = 90


@dataclass(frozen=True, slots=True)
class RateRecord:
    """Holds the result of one calibration.

    Attributes:
        measured_at: Time of the measurement, with its time zone.
        profile: Name of the profile whose models were measured.
        fixed_seconds: Seconds that any run costs once.
        seconds_an_image: Seconds that each picture costs.
        megabytes: Mean file size of the sample.
        megapixels: Mean size of its pictures.
        decode: The measured `Rates.decode`.
        core_gmacs: The measured `Rates.core_gmacs`; 0 where the work of the profile's models is not known.
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
        """Return how long ago the measurement was, in words; a clock that was set back gives "today"."""
        days = max((now - self.measured_at).total_seconds(), 0.0) / _DAY_S
        words = "today" if days < 1 else f"{days:.0f} days ago"
        return f"{words}: measure again" if days > _OLD_DAYS else words

    def rates(self, now: datetime) -> Rates:
        """Return `DEFAULT_RATES` with the measured values, and their age as the source."""
        source = f"measured on this machine, one core, {self.age(now)}"
        sources = {"decode": source, **({"core_gmacs": source} if self.core_gmacs else {})}
        return replace(
            DEFAULT_RATES,
            decode=self.decode,
            decode_megapixels=self.megapixels,
            core_gmacs=self.core_gmacs or DEFAULT_RATES.core_gmacs,
            sources={**DEFAULT_RATES.sources, **sources},
        )


def remember(home: Path, measured: MachineCalibration, *, profile: str, now: datetime) -> RateRecord:
    """Save a measurement in a home; it replaces the last one, of any profile."""
    measurement = RateRecord(
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
    write_atomically(home / _NAME, json.dumps(asdict(measurement), default=lambda moment: moment.isoformat(), indent=1))
    return measurement


def recall(home: Path, *, profile: str) -> RateRecord | None:
    """Return the last measurement in a home, or None where there is none with this profile's models.

    Raises:
        ConfigurationError: the file is damaged.
    """
    path = home / _NAME
    if not path.is_file():
        return None
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        numbers = {name: float(content[name]) for name in _NUMBERS}
        measurement = RateRecord(
            datetime.fromisoformat(content["measured_at"]).astimezone(UTC), str(content["profile"]), **numbers
        )
        if (
            not all(0 <= value < float("inf") for value in numbers.values())
            or not measurement.decode
            or not measurement.megapixels
        ):
            raise ValueError(f"numbers that no measurement gives: {numbers}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"the measured rates in {str(path)!r} cannot be read: {error!r}",
            hint="delete that file, or measure again with `lodestone plan --here FOLDER`",
        ) from error
    return measurement if measurement.profile == profile else None


_NUMBERS: Final = ("fixed_seconds", "seconds_an_image", "megabytes", "megapixels", "decode", "core_gmacs")
