"""Where do a published model's files lie, and what tells one set of weights from another? In a local directory, or on a hub.

A hub's copy is taken from the machine's own cache where it is there, so that a model never changes by itself and nothing is
asked of the network; only what is missing is fetched. Weights are told apart by their content: the hub names its files by
their SHA-256, and a local file is hashed once (the hash is remembered until its size or time changes).
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
# What loading damaged, foreign or half-fetched files raises, in torch, open_clip, timm, diffusers and the hub's client.
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
    """What a library's checkpoints are made of.

    Attributes:
        config: Name of the JSON file that describes the model.
        weights: Names of the weights, best first.
        beside: Patterns of what else is needed, e.g. a tokenizer's files.
        install: The command that installs the library, for hints.
    """

    config: str
    weights: tuple[str, ...]
    beside: tuple[str, ...] = ()
    install: str = "pip install 'lodestone-search[clip]'"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model on this machine's disk.

    Attributes:
        folder: Has the config, the weights and what lies beside them.
        config: The JSON file's content.
        identity: Changes whenever the weights, the config or the tokenizer do; 16 hex characters.
    """

    folder: Path
    config: Mapping[str, Any]
    identity: str


def is_directory(source: str) -> bool:
    """Does a name mean a local directory (`/models/clip`, `./clip`, `~/clip`), not a hub's repository?"""
    return source.startswith(("/", "./", "../", "~")) or Path(source).is_absolute()


def find_checkpoint(source: str, layout: Layout, *, cache: ModelCache) -> Checkpoint:
    """The files of a model; those of a hub are fetched when the machine does not have them.

    Args:
        source: A local directory, or a repository of the Hugging Face hub (`owner/name`, `owner/name@revision`).
        layout: What to look for.
        cache: Remembers the hashes of local weights.

    Raises:
        ModelUnavailableError: there is no such directory, a file is missing, or the hub cannot be asked and the machine has no
            copy.
    """
    folder = Path(source).expanduser().absolute() if is_directory(source) else _from_hub(source, layout)
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
    """A hash of the weights: the hub's own, which stands in the name of the file that a snapshot links to, or ours."""
    target = weights.resolve()
    if weights.is_symlink() and _SHA256.fullmatch(target.name):
        return target.name
    facts = target.stat()
    key = fingerprint(str(target), str(facts.st_size), str(facts.st_mtime_ns))
    remembered = cache.obtain("weights", key=key, suffix=".hash", build=lambda path: _write_hash(target, path))
    return remembered.read_text("ascii").strip()


def _write_hash(weights: Path, target: Path) -> None:
    target.write_text(hash_file(weights) + "\n", "ascii")


def _from_hub(source: str, layout: Layout) -> Path:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ModelUnavailableError(f"{source} is a model of a hub, and huggingface_hub is not installed", hint=layout.install)
    import httpx
    from huggingface_hub import snapshot_download

    repository, _, revision = source.removeprefix(HUB_PREFIX).partition("@")
    wanted = [layout.config, *layout.beside]
    problems: list[str] = []
    # What is here already wins: a model changes when its user says so, not when its publisher does.
    for local, weights in [(True, ""), *((False, name) for name in layout.weights)]:
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
    raise ModelUnavailableError(
        f"the model {repository!r} is neither on this machine nor to be had from the hub: {problems[-1]}",
        hint="fetch it once with network access (and an account, where its licence asks for one), or name a local directory; "
        "see docs/models.md",
        model=repository,
    )
