"""May these settings be used on several nodes? What only one machine can see, or only one process may write, may not."""

from __future__ import annotations

from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError


def check_placement(settings: Settings, *, nodes: int) -> None:
    """Refuse what cannot work when `nodes` machines take part.

    Whether all of them see the embeddings cannot be told from settings: a folder may be a shared mount. That is tried out
    (`lodestone_jobs.nodes`).

    Raises:
        ConfigurationError: the catalog is an SQLite file, or the store is embedded; names all that is wrong.
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
