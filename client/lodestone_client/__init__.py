"""The Python client of a Lodestone service: `Lodestone` and `AsyncLodestone`, typed, streaming, with retries.

Names are imported when they are first used: parts of this package serve without httpx, which takes a while to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lodestone_client.async_client import AsyncLodestone
    from lodestone_client.retrying import RetryPolicy
    from lodestone_client.sync_client import Lodestone
    from lodestone_schemas.api import SearchRequest

__all__ = ["AsyncLodestone", "Lodestone", "RetryPolicy", "SearchRequest"]

_MODULES: Final = {
    "AsyncLodestone": "lodestone_client.async_client",
    "Lodestone": "lodestone_client.sync_client",
    "RetryPolicy": "lodestone_client.retrying",
    "SearchRequest": "lodestone_schemas.api",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - one of the names above
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
