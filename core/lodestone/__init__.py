"""Lodestone finds pictures by what you mean. This is the library; importing it loads nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodestone_schemas.version import __version__

if TYPE_CHECKING:
    from lodestone_client import AsyncLodestone, Lodestone

__all__ = ["AsyncLodestone", "Lodestone", "__version__"]


def __getattr__(name: str) -> type[Lodestone | AsyncLodestone]:
    """Import the clients of a running service when they are first used."""
    if name in {"AsyncLodestone", "Lodestone"}:
        import lodestone_client

        client: type[Lodestone | AsyncLodestone] = getattr(lodestone_client, name)
        return client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
