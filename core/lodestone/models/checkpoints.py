"""Files of published models: where they are (a local directory, or a hub), and the identity of their weights.

A model is taken from the machine's own copy of a hub where there is one, so that it never changes by itself and the network is
not used; only what is missing is fetched. Weights are identified by their content: the hub names its files by their SHA-256,
and a local file is hashed once (the hash is remembered until its size or time changes).
"""

from __future__ import annotations

import importlib.util
import json
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError

from lodestone.errors import ModelUnavailableError
from lodestone.models.cache import ModelCache, fingerprint, hash_file

HUB_PREFIX: Final = "hf-hub:"
# Errors that torch, open_clip, timm, diffusers and the hub's client raise for damaged, foreign or partly fetched files.
CANNOT_LOAD: Final = (
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    KeyError,
    OSError,
    RuntimeError,
    SafetensorError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Layout:
    """Describes the files of a library's checkpoints.

    Attributes:
        config: Name of the JSON file that describes the model.
        weights: Names of the weights files, best first.
        beside: Glob patterns of further files that are needed, e.g. a tokenizer's.
        install: The command that installs the library, for hints.
    """

    config: str
    weights: tuple[str, ...]
    beside: tuple[str, ...] = ()
    install: str = "pip install 'lodestone-search[clip]'"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Describes a model on this machine's disk.

    Attributes:
        folder: The folder with the config, the weights and the further files.
        config: The JSON file's content.
        identity: 16 hex characters that change whenever the weights, the config or the tokenizer do.
    """

    folder: Path
    config: Mapping[str, Any]
    identity: str


def is_directory(source: str) -> bool:
    """Return whether a name means a local directory (`/models/clip`, `./clip`, `~/clip`), not a hub's repository."""
    return source.startswith(("/", "./", "../", "~")) or Path(source).is_absolute()


def find_checkpoint(source: str, layout: Layout, *, cache: ModelCache, fetch: bool = True) -> Checkpoint:
    """Find the files of a model; those of a hub are fetched when the machine does not have them.

    Args:
        source: A local directory, or a repository of the Hugging Face hub (`owner/name`, `owner/name@revision`).
        layout: The files to look for.
        cache: Remembers the hashes of local weights.
        fetch: Whether the hub may be asked; if not, only a copy on this machine is found.

    Raises:
        ModelUnavailableError: there is no such directory, a file is missing, or the machine has no copy and the hub cannot be
            reached or may not be asked.
    """
    folder = Path(source).expanduser().absolute() if is_directory(source) else _from_hub(source, layout, fetch=fetch)
    weights = _first(folder, layout.weights)
    config = folder / layout.config
    if not config.is_file() or weights is None:
        missing = layout.config if not config.is_file() else " or ".join(layout.weights)
        raise ModelUnavailableError(
            f"{source} has no {missing}" if folder.is_dir() else f"there is no directory {str(folder)!r}",
            hint=f"a model's directory holds {layout.config} and one of {', '.join(layout.weights)}; see docs/models.md",
            model=source,
        )
    others = sorted({path for pattern in layout.beside for path in folder.glob(pattern) if path.is_file()})
    small = [part for path in (config, *others) for part in (path.name, hash_file(path))]
    return Checkpoint(folder, _read(config), fingerprint(_content_of(weights, cache), *small))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text("utf8"))
    except ValueError as error:
        raise ModelUnavailableError(f"{path} is not valid JSON: {error}", hint="fetch the model's files again") from error
    if not isinstance(content, dict):
        raise ModelUnavailableError(f"{path} does not describe a model", hint="fetch the model's files again")
    return content


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _content_of(weights: Path, cache: ModelCache) -> str:
    """Return a hash of the weights: the hub's own, which is the name of the file that a snapshot links to, or ours."""
    target = weights.resolve()
    if weights.is_symlink() and _SHA256.fullmatch(target.name):
        return target.name
    status = target.stat()
    key = fingerprint(str(target), str(status.st_size), str(status.st_mtime_ns))
    hash_path = cache.obtain("weights", key=key, suffix=".hash", build=lambda path: _write_hash(target, path))
    return hash_path.read_text("ascii").strip()


def _write_hash(weights: Path, target: Path) -> None:
    target.write_text(hash_file(weights) + "\n", "ascii")


def _from_hub(source: str, layout: Layout, *, fetch: bool) -> Path:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ModelUnavailableError(f"{source} is a model of a hub, and huggingface_hub is not installed", hint=layout.install)
    import httpx
    from huggingface_hub import snapshot_download

    repository, _, revision = source.removeprefix(HUB_PREFIX).partition("@")
    wanted = [layout.config, *layout.beside]
    problems: list[str] = []
    # A local copy is used first: a model changes when its user says so, not when its publisher does.
    for local, weights in [(True, ""), *((False, name) for name in layout.weights if fetch)]:
        try:
            folder = Path(
                snapshot_download(
                    repository,
                    revision=revision or None,
                    local_files_only=local,
                    allow_patterns=None if local else [*wanted, weights],
                )
            )
        except (OSError, ValueError, httpx.HTTPError) as error:  # what the hub's client raises: offline, unknown, refused
            problems.append(str(error).splitlines()[0] if str(error) else type(error).__name__)
            continue
        if (folder / layout.config).is_file() and _first(folder, layout.weights) is not None:
            return folder
        problems.append(f"the copy in {folder} has no {layout.config} or no weights")
    if not fetch:
        raise ModelUnavailableError(
            f"the model {repository!r} is not on this machine",
            hint=f"`lodestone index` fetches it at its first use, `hf download {repository}` before",
            model=repository,
        )
    raise ModelUnavailableError(
        f"the model {repository!r} is neither on this machine nor to be had from the hub: {problems[-1]}",
        hint="fetch it once with network access (and an account, where its licence asks for one), or name a local directory; "
        "see docs/models.md",
        model=repository,
    )
