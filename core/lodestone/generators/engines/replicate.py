"""Guide engine for Replicate: it creates a prediction, waits, polls if the wait was too short, and fetches its files.

A prediction that outlives the call is cancelled by the service itself (`Cancel-After`): nothing goes on running, or is paid
for, after a query ended.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx
from pydantic import Field

from lodestone.clock import remaining
from lodestone.errors import ServiceUnavailableError
from lodestone.generators.base import GuideRequest
from lodestone.generators.engines.http import HttpGenerator, HttpOptions, unexpected

_POLL_S: Final = 0.5
_LONGEST_WAIT_S: Final = 60  # seconds of one request, by the service's rules
_SHORTEST_CANCEL_S: Final = 5
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OWNED: Final = re.compile(r"[\w.-]+/[\w.-]+")  # owner/name: its newest version
_RUNNING: Final = frozenset({"starting", "processing", "queued"})


class ReplicateOptions(HttpOptions):
    """`options` of `kind = "replicate"`; `extra` is added to the model's input."""

    size_inputs: list[str] = Field(["width", "height"], description="Inputs of the model that take the size; may be empty.")
    count_input: str | None = Field("num_outputs", description="Input that takes the number of pictures; null for none.")
    poll_s: float = Field(_POLL_S, gt=0, le=60, description="Seconds between two looks at a prediction.")


class Replicate(HttpGenerator):
    """Generator `replicate`, which runs predictions. `model` is `owner/name`, `owner/name:version` or a version."""

    options_type = ReplicateOptions
    default_url = "https://api.replicate.com"
    needs_model = True

    async def _ask(self, request: GuideRequest, deadline: float) -> Sequence[str]:
        options = self._options
        assert isinstance(options, ReplicateOptions)  # noqa: S101  (`options_type`)
        inputs: dict[str, Any] = {"prompt": request.prompt, "seed": self._seed(request)}
        inputs |= dict.fromkeys(options.size_inputs, request.size)
        inputs |= {options.count_input: request.n} if options.count_input else {}
        reply = await self._create({**inputs, **options.extra}, deadline)
        while True:
            status, number = (reply.get("status"), reply.get("id")) if isinstance(reply, Mapping) else (None, None)
            if status == "succeeded":
                return _outputs(reply)
            if status not in _RUNNING:
                raise self._ended(reply, status)
            if not isinstance(number, str) or not _ID.fullmatch(number):
                raise unexpected("an 'id'", reply)
            await asyncio.sleep(min(options.poll_s, remaining(deadline)))
            reply = await self._http.get(self._at(f"/v1/predictions/{number}"), deadline=deadline)

    async def _create(self, inputs: Mapping[str, Any], deadline: float) -> Any:  # noqa: ANN401
        model, left = self._settings.model or "", min(remaining(deadline), 3600.0)
        headers = {
            "Prefer": f"wait={max(1, min(_LONGEST_WAIT_S, int(left)))}",
            "Cancel-After": f"{max(_SHORTEST_CANCEL_S, math.ceil(left))}s",
        }
        if _OWNED.fullmatch(model):
            return await self._http.post(
                self._at(f"/v1/models/{model}/predictions"), {"input": dict(inputs)}, deadline=deadline, headers=headers
            )
        body = {"version": model.rpartition(":")[2], "input": dict(inputs)}
        return await self._http.post(self._at("/v1/predictions"), body, deadline=deadline, headers=headers)

    def _at(self, path: str) -> httpx.URL:
        return self._url.copy_with(path=self._url.path.rstrip("/").removesuffix("/v1") + path)

    def _ended(self, reply: Any, status: object) -> ServiceUnavailableError:  # noqa: ANN401
        if not isinstance(status, str):
            return unexpected("a 'status'", reply)
        why = reply.get("error")
        detail = f": {' '.join(self._credential.scrubbed(why).split())[:200]}" if isinstance(why, str) else ""
        return ServiceUnavailableError(
            f"the prediction of generator {self.name!r} ended as {status[:40]!r}{detail}",
            hint="look at the prediction on the service's own pages",
            declined="nsfw" in detail.lower(),
            charged=status != "aborted",
        )


def _outputs(reply: Mapping[str, Any]) -> list[str]:
    output = reply.get("output")
    outputs = [output] if isinstance(output, str) else output
    if not isinstance(outputs, list) or not all(isinstance(address, str) for address in outputs):
        raise unexpected("addresses at 'output'", reply)
    return outputs
