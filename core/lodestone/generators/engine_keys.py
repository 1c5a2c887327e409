"""Location of a guide engine's key, named as messages and settings name the engine."""

from __future__ import annotations

from pathlib import Path

from lodestone.remote.credentials import Credential


def credential_of(engine: str, *, key_env: str | None = None, key_file: Path | None = None) -> Credential:
    """Return the location of an engine's key; see `Credential`."""
    return Credential(f"generator {engine!r}", setting=f"generators.{engine}", key_env=key_env, key_file=key_file)
