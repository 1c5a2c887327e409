"""Modules that importing the use cases does not load: most processes need a few of them, and each takes long to import."""

from __future__ import annotations

import subprocess
import sys

THIRD_PARTY = (
    "PIL", "alembic", "fastapi", "httpx", "onnxruntime", "pyarrow", "pydantic_settings", "qdrant_client",
    "qdrant_edge", "ray", "rich", "scipy", "sklearn", "sqlalchemy", "structlog", "torch", "typer", "umap",
)  # fmt: skip
OURS = (
    "lodestone.catalog.catalog", "lodestone.catalog.tables", "lodestone.config.settings", "lodestone.home",
    "lodestone.indexing.scan", "lodestone.query.engine", "lodestone.query.retrieving.leaves", "lodestone.query.asking.resolve",
    "lodestone.remote", "lodestone.training", "lodestone_client", "lodestone_eval",
)  # fmt: skip


def test_the_use_cases_load_no_database_no_settings_and_no_models() -> None:
    script = (
        "import sys, lodestone.services.use_cases\n"
        "print(len([name for name in sys.modules if name.startswith('lodestone.services.')]))\n"
        f"print(*[name for name in {(*THIRD_PARTY, *OURS)!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    count, loaded = done.stdout.splitlines()
    assert int(count) > 20  # the use cases themselves are there
    assert loaded.split() == []


def test_what_is_named_exists() -> None:
    script = f"import importlib.util as u; print(*[name for name in {(*THIRD_PARTY, *OURS)!r} if u.find_spec(name) is None])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
