"""Edits of `lodestone.toml`: one setting set or taken out, with comments and order kept, checked before anything is written."""

from __future__ import annotations

import stat
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lodestone.config.own_profiles import choose_profile
from lodestone.config.settings import ENVIRONMENT_PREFIX, checked_file
from lodestone.durable_files import write_atomically
from lodestone.errors import ConfigurationError, InvalidRequestError, NotFoundError
from lodestone_schemas.redaction import shown_setting

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_ELSEWHERE: Final = {"home": "set LODESTONE_HOME, or give --home: the file is in the home itself"}


@dataclass(frozen=True, slots=True)
class Edit:
    """What an edit changed.

    Attributes:
        path: The file.
        name: Dotted name of the setting.
        before: Its value in the file before; None where it had none.
        after: Its value in the file now; None where it has none.
    """

    path: Path
    name: str
    before: Any
    after: Any


def set_setting(path: Path, name: str, text: str) -> Edit:
    """Set one setting in the file, which is made if it is missing.

    Args:
        path: The file.
        name: Dotted name of the setting, e.g. `serve.auth.keys`.
        text: Its value as TOML has it; what is no TOML, or not allowed as such, is taken as a text.

    Raises:
        InvalidRequestError: the setting is a secret, which does not belong into the file, or cannot be in it.
        ConfigurationError: the file cannot be read or written, there is no such setting, or the value is not allowed. Nothing
            was written.
    """
    _check_name(name)
    refused: ConfigurationError | None = None
    for value in _readings(text):
        if shown_setting(name, _plain(value)) != _plain(value):
            raise refused or InvalidRequestError(
                f"{name} would hold a secret, and whoever reads the file would read it", hint=_place_of_secret(name)
            )
        document = _read(path)
        before = _put(document, name.split("."), value, name=name)
        try:
            _check(document)
        except ConfigurationError as error:
            refused = refused or error
            continue
        _write(path, document)
        return Edit(path, name, before, value)
    assert refused is not None  # noqa: S101 - there is a reading of any text
    raise refused


def unset_setting(path: Path, name: str) -> Edit:
    """Take one setting, or a whole section, out of the file.

    Raises:
        NotFoundError: the file does not set it.
        ConfigurationError: the file cannot be read or written, or what is left is not allowed. Nothing was written.
    """
    document = _read(path)
    *sections, last = name.split(".")
    table: Any = document
    for part in sections:
        table = table.get(part) if isinstance(table, MutableMapping) else None
    if not isinstance(table, MutableMapping) or last not in table:
        raise NotFoundError(f"{str(path)!r} does not set {name!r}", hint="lodestone config show")
    before = _plain(table[last])
    del table[last]  # a section that is empty then stays, with its comments
    _check(document)
    _write(path, document)
    return Edit(path, name, before, None)


def _check_name(name: str) -> None:
    if name in _ELSEWHERE:
        raise InvalidRequestError(f"{name!r} cannot be in the settings file", hint=_ELSEWHERE[name])
    if not all(name.split(".")):
        raise InvalidRequestError(f"{name[:100]!r} is no name of a setting", hint="for example index.workers")


def _place_of_secret(name: str) -> str:
    variable = ENVIRONMENT_PREFIX + name.upper().replace(".", "__")
    if name.startswith("generators."):
        engine = ".".join(name.split(".")[:2])
        return f"name the variable or file that holds it: {engine}.key_env or {engine}.key_file"
    return f"set the variable {variable}"


def _readings(text: str) -> list[Any]:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        value = tomlkit.value(text)
    except (TOMLKitError, ValueError):
        return [text]
    return [value] if isinstance(value, str) else [value, text]


def _read(path: Path) -> TOMLDocument:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return tomlkit.document()
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise ConfigurationError(f"cannot read {str(path)!r}: {error}", hint="it must be UTF-8 TOML") from None


def _put(document: TOMLDocument, parts: list[str], value: Any, *, name: str) -> Any:  # noqa: ANN401 - whatever a setting is
    """Put a value into the document, and return the one that it had; None for none."""
    import tomlkit

    table: MutableMapping[str, Any] = document
    for part in parts[:-1]:
        if part not in table:
            table[part] = tomlkit.table()
        table = table[part]
        if not isinstance(table, MutableMapping):
            raise ConfigurationError(f"{name!r} is no setting: {part!r} is no section", hint="lodestone config show")
    before = _plain(table.get(parts[-1]))
    if isinstance(before, dict) and not isinstance(value, MutableMapping):
        raise ConfigurationError(f"{name!r} is a section, not a setting", hint=f"lodestone config show {name}")
    table[parts[-1]] = value
    return before


def _check(document: TOMLDocument) -> None:
    settings = checked_file(document.unwrap())
    choose_profile(settings.profile, settings.profiles)


def _write(path: Path, document: TOMLDocument) -> None:
    import tomlkit

    try:
        target = path.resolve()  # of a link, what it leads to is replaced
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        write_atomically(target, tomlkit.dumps(document), mode=mode)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {str(path)!r}: {error.strerror or error}", hint="it has its old content"
        ) from error


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a setting is
    return value.unwrap() if hasattr(value, "unwrap") else value
