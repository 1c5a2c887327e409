"""Base of every section of the settings: unknown names are refused, and neither `repr` nor an error shows a secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from lodestone_schemas.redaction import refused_value, shown_setting

SECTION_CONFIG: Final = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class SafeRepresentation(BaseModel):
    """Model whose `repr` hides secrets, as `lodestone config show` does."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the fields as they may be shown."""
        arguments: Iterable[tuple[str | None, Any]] = super().__repr_args__()
        for name, value in arguments:
            yield name, shown_setting(name or "", value)


class SettingsSection(SafeRepresentation):
    """One section of the settings: frozen, and without names that it does not know.

    Attributes:
        former_names: Former name of a setting -> its name. A former name is read too, unless today's is given beside it.
    """

    model_config = SECTION_CONFIG
    former_names: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _under_its_name(cls, given: Any) -> Any:  # noqa: ANN401 - whatever was given, which may be no mapping
        if not isinstance(given, Mapping) or not cls.former_names.keys() & given.keys():
            return given
        return {cls.former_names[name]: value for name, value in given.items() if name in cls.former_names} | {
            name: value for name, value in given.items() if name not in cls.former_names
        }


def refusal_of(error: ValidationError, *, within: str = "") -> tuple[str, str]:
    """Return the place of the first thing that settings were refused for, and what is wrong there, without any secret.

    Raise what is made of it `from None`: the original error may quote the whole section.

    Args:
        error: What pydantic raised.
        within: Dotted name of the section that was validated.
    """
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return place, first["msg"] + refused_value(first, within=within)
