"""Test call to a guide engine, and a description of its configuration. Neither shows a key."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Any

from lodestone.clock import remaining
from lodestone.errors import LodestoneError
from lodestone.generators.base import Guide, GuideRequest
from lodestone.generators.engine_call import Engine, version_of
from lodestone.remote.credentials import credential_of
from lodestone_schemas.redaction import shown_setting

_WORDS = "a red bicycle leaning against a white wall"


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of one call to an engine.

    Attributes:
        engine: Name of the engine.
        outcome: `ok`, `empty` (it answered, and had no guide for these words), `timeout` or `error`.
        seconds: Duration, including loading at the first call.
        guides: Number of guides.
        width: Width of the first picture as used, pixels; None without one.
        height: Height of the first picture as used, pixels; None without one.
        cost: Cost of the guides, by the engine's setting.
        message: What went wrong.
        hint: What to do about it.
    """

    engine: str
    outcome: str
    seconds: float
    guides: int = 0
    width: int | None = None
    height: int | None = None
    cost: float = 0.0
    message: str = ""
    hint: str = ""


async def try_engine(engine: Engine, request: GuideRequest | None = None) -> Trial:
    """Call an engine once without the hub: breaker, cache and budget are not involved.

    Args:
        engine: The engine, enabled or not.
        request: What to ask; by default one picture of a bicycle. Engines that answer from the collection need its vectors.
    """
    settings = engine.settings
    trial_request = request or GuideRequest(_WORDS, _WORDS, 1, size=settings.size)
    started = time.monotonic()
    deadline = started + settings.timeout_s

    async def call() -> list[Guide]:
        await engine.generator.warm_up()
        return await engine.generator.generate(_before(trial_request, deadline))

    try:
        async with asyncio.timeout(remaining(deadline)):
            guides = await call()
    except TimeoutError:
        hint = f"raise generators.{engine.name}.timeout_s, or look why it is slow"
        message = f"no answer within {settings.timeout_s:.3g} s"
        return Trial(engine.name, "timeout", time.monotonic() - started, message=message, hint=hint)
    except LodestoneError as error:
        return Trial(engine.name, "error", time.monotonic() - started, message=error.message, hint=error.hint)
    except Exception as error:  # noqa: BLE001  (other people's code: what it raises is the answer)
        return Trial(engine.name, "error", time.monotonic() - started, message=f"{type(error).__name__}: {error}")
    pixels = next((guide.pixels for guide in guides if guide.pixels is not None), None)
    return Trial(
        engine.name,
        "ok" if guides else "empty",
        time.monotonic() - started,
        guides=len(guides),
        width=None if pixels is None else pixels.shape[1],
        height=None if pixels is None else pixels.shape[0],
        cost=len(guides) * settings.cost,
    )


def describe_engine(engine: Engine) -> dict[str, Any]:
    """Return an engine as configured, JSON-serialisable. Of its key, only the source and whether it exists are shown.

    Secrets in its options and in its address are hidden.
    """
    settings = engine.settings
    credential = credential_of(engine.name, key_env=settings.key_env, key_file=settings.key_file)
    try:
        key = "none needed" if credential.read() is None else "found"
    except LodestoneError as error:
        key = error.message
    facts = shown_setting("", settings.model_dump(mode="json"))
    return {
        "name": engine.name,
        **facts,
        "version": version_of(engine),
        "key": key,
        "key_source": credential.source,
        "guides_a_call": engine.generator.guides_a_call,
        "edits_pictures": engine.generator.edits,
    }


def _before(request: GuideRequest, deadline: float) -> GuideRequest:
    return replace(request, deadline=deadline if request.deadline is None else min(deadline, request.deadline))
