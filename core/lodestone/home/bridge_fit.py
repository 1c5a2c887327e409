"""Check that a bridge fits a profile: it reads image models and the text encoder that the profile has.

A profile names the bridge that ships for it. A home may have learnt another one, perhaps under another profile: it stays in
force where it fits, and where it does not the shipped one takes its place until the profile is changed back.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.errors import ConfigurationError, LodestoneError
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.bridge_weights import FILE, inputs_of

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile
    from lodestone.spaces.base import Projection
    from lodestone.spaces.bridge_arrays import BridgeInputs

_log = logging.getLogger(__name__)


def check_bridge(space: Projection, profile: Profile) -> None:
    """Check that the profile has the models that a bridge reads; the bridge's file is read for it.

    Raises:
        ConfigurationError: it lacks an image model, or has another text encoder.
    """
    if not isinstance(space, BridgeSpace):
        return  # another package's
    weights = space.weights
    problem = _misfit(weights.inputs, profile.backbones, profile.text_encoder)
    if problem is not None:
        raise ConfigurationError(
            f"the bridge {weights.version} does not fit the profile {profile.name!r}: {problem}",
            hint="choose the profile that it was trained for, or leave the space bridge out of the profile's `spaces`",
        )


def is_of_another_profile(space: Projection, profile: Profile) -> bool:
    """Return whether a bridge ships for another profile, or reads models that this one lacks; its file is read for it."""
    if not isinstance(space, BridgeSpace):
        return False  # other spaces have no versions of other profiles
    if space.shipped_file not in {None, profile.bridge}:
        return True
    return _misfit(space.weights.inputs, profile.backbones, profile.text_encoder) is not None


def fits(path: Path, profile: Profile) -> bool:
    """Return whether a bridge learnt in this home fits the profile; of its file only the header is read, once a process.

    A file that cannot be read counts as fitting, so that the error is raised where the file is used.
    """
    try:
        return _fits(path, profile.name, profile.backbones, profile.text_encoder)
    except (LodestoneError, KeyError, TypeError):
        return True


@lru_cache(64)  # a learnt file is named by its content and never changes; the warning appears once
def _fits(path: Path, profile: str, backbones: tuple[str, ...], text_encoder: str) -> bool:
    problem = _misfit(inputs_of(FILE.header(path)), backbones, text_encoder)
    if problem is not None:
        _log.warning("the learnt bridge %s is not used under the profile %r: %s", path.stem, profile, problem)
    return problem is None


def _misfit(inputs: BridgeInputs, backbones: Sequence[str], text_encoder: str) -> str | None:
    missing = [name for name in inputs.backbones if name not in backbones]
    if missing:
        return f"it reads {', '.join(missing)}, and the profile has {', '.join(backbones) or 'no image model'}"
    if inputs.text_encoder != text_encoder:
        return f"it reads texts of {inputs.text_encoder}, and the profile's text encoder is {text_encoder}"
    return None
