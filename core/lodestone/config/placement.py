"""Check that settings can work when several nodes take part.

A catalog in an SQLite file can be locked by one machine only, and an embedded store has one owner process, so both are refused.
"""

from __future__ import annotations

from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError


def check_placement(settings: Settings, *, nodes: int) -> None:
    """Refuse settings that cannot work when `nodes` machines take part.

    Settings do not show whether all nodes see the embeddings, because a folder may be a shared mount. `lodestone_jobs.nodes`
    tests that at run time.

    Raises:
        ConfigurationError: The catalog is an SQLite file, or the store is embedded; the message names every problem.
    """
    if nodes < 2:
        return
    problems: list[str] = []
    hints: list[str] = []
    url = settings.catalog_url
    if url is None or url.startswith("sqlite"):
        problems.append("its catalog is an SQLite file, which one machine can lock and no other")
        hints.append("set catalog_url to a PostgreSQL database, e.g. postgresql+psycopg://host/lodestone")
    if settings.store.kind == "edge":
        problems.append("its store is embedded (store.kind = edge), which one process of one machine owns")
        hints.append("set store.kind = server and store.url to a Qdrant cluster")
    if problems:
        raise ConfigurationError(
            f"this home cannot be indexed on a cluster of {nodes} nodes: {'; and '.join(problems)}", hint="; ".join(hints)
        )
