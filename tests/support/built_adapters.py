"""Type adapters of routes that are built once: FastAPI makes four hundred for every app, and tests make hundreds of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest


@pytest.fixture(scope="session", autouse=True)
def built_adapters() -> Iterator[None]:
    """Let FastAPI use the adapter that it made before for a parameter or an answer of the same type and the same rules.

    An adapter is never changed, so who shares one cannot tell. Functions among the rules are told apart by their addresses,
    which no other function gets as long as the adapter is kept.
    """
    from fastapi._compat import v2

    build = v2.TypeAdapter
    built: dict[Any, Any] = {}

    def adapter(type_: Any, *, config: Any = None) -> Any:
        annotation, *rules = get_args(type_)
        key = (annotation, repr(rules), repr(config))
        if key not in built:
            built[key] = build(type_, config=config), rules
        return built[key][0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(v2, "TypeAdapter", adapter)
        yield
