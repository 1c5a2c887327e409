"""Key of a remote service, from the environment or a file, read when it is needed and never shown.

A key is read anew for every call, so a rotated one is used at once. It leaves this module inside a `SecretStr`; texts that a
server returns pass through `scrubbed`, because services quote the key that they refuse.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from lodestone.errors import ModelUnavailableError

_LONGEST: Final = 16_384  # characters: service account tokens have some 1,000
_HIDDEN: Final = "***"


class Credential:
    """Location of one service's key.

    Args:
        owner: The service as messages name it, e.g. "generator 'flux'".
        setting: Section of the settings that names the key, e.g. "generators.flux".
        key_env: Environment variable; wins over the file.
        key_file: File with nothing but the key.
    """

    def __init__(self, owner: str, *, setting: str, key_env: str | None = None, key_file: Path | None = None) -> None:
        self._owner = owner
        self._setting = setting
        self._env = key_env
        self._file = key_file

    def __repr__(self) -> str:
        return f"Credential({self.source or 'none'})"

    @property
    def source(self) -> str | None:
        """Return where the key is read from; None for a service without one."""
        if self._env is not None:
            return f"environment variable {self._env}"
        return None if self._file is None else f"file {self._file}"

    def read(self) -> SecretStr | None:
        """Return the key; None for a service that needs none. Blocks briefly.

        Raises:
            ModelUnavailableError: the settings name a key that does not exist or cannot be sent in a header.
        """
        if self.source is None:
            return None
        key = self._text().strip()
        if not key:
            raise self._unusable("is missing or empty")
        if len(key) > _LONGEST or not (key.isascii() and key.isprintable()) or " " in key:
            raise self._unusable("is no key: it must be one word of printable ASCII characters")
        return SecretStr(key)

    def scrubbed(self, text: str) -> str:
        """Return the text with the key replaced."""
        try:
            key = self.read()
        except ModelUnavailableError:  # reported where the key is needed
            return text
        return text if key is None else text.replace(key.get_secret_value(), _HIDDEN)

    def _text(self) -> str:
        if self._env is not None:
            return os.environ.get(self._env, "")
        try:
            return (self._file or Path()).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self._unusable(f"cannot be read: {type(error).__name__}") from None  # the text may hold the key

    def _unusable(self, why: str) -> ModelUnavailableError:
        return ModelUnavailableError(
            f"the key of {self._owner} ({self.source}) {why}",
            hint=f"set it, or change {self._setting}.key_env or key_file",
            charged=False,
        )


def credential_of(engine: str, *, key_env: str | None = None, key_file: Path | None = None) -> Credential:
    """Return the location of an engine's key; see `Credential`."""
    return Credential(f"generator {engine!r}", setting=f"generators.{engine}", key_env=key_env, key_file=key_file)
