"""Guide engine for OpenAI-compatible services: `POST /v1/images/generations`, which many servers support.

With the option `edits`, pictures are edited by `POST /v1/images/edits`. That route takes no strength.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import httpx
from pydantic import Field

from lodestone.config.engines import EngineSettings
from lodestone.generators.base import GuideRequest
from lodestone.generators.engines.http import HttpGenerator, HttpOptions, unexpected
from lodestone.generators.pictures import png_of

_GENERATIONS: Final = "/images/generations"
_EDITS: Final = "/images/edits"
_DECLINED: Final = frozenset({"content_policy_violation", "moderation_blocked"})


class OpenAIOptions(HttpOptions):
    """`options` of `kind = "openai"`."""

    response_format: Literal["b64_json", "url", "none"] = Field(
        "b64_json", description="What is asked for; none: not said, for models that take no such parameter (gpt-image)."
    )
    send_seed: bool = Field(False, description="Send `seed`: OpenAI knows none, several compatible servers do.")
    edits: bool = Field(False, description="The model edits pictures too (gpt-image), by `/v1/images/edits`.")


class OpenAIImages(HttpGenerator):
    """Generator `openai`, which calls an OpenAI-compatible service.

    Without `send_seed` a guide can be repeated only through the guide cache.
    """

    options_type = OpenAIOptions
    default_url = "https://api.openai.com"

    def __init__(self, name: str, settings: EngineSettings) -> None:
        super().__init__(name, settings)
        assert isinstance(self._options, OpenAIOptions)  # noqa: S101  (`options_type`)
        self.edits = self._options.edits

    async def _ask(self, request: GuideRequest, deadline: float) -> Sequence[str]:
        options = self._options
        assert isinstance(options, OpenAIOptions)  # noqa: S101  (`options_type`)
        body: dict[str, Any] = {"prompt": request.prompt, "n": request.n, "size": f"{request.size}x{request.size}"}
        body |= {"model": self._settings.model} if self._settings.model else {}
        body |= {"response_format": options.response_format} if options.response_format != "none" else {}
        body |= {"seed": self._seed(request)} if options.send_seed else {}
        body |= options.extra
        if request.edit is None:
            reply = await self._http.post(endpoint(self._url), body, deadline=deadline)
        else:
            content = await asyncio.to_thread(png_of, request.edit.pixels, request.size)
            files = {"image": ("image.png", content, "image/png")}
            reply = await self._http.post_form(endpoint(self._url, _EDITS), body, files=files, deadline=deadline)
        rows = reply.get("data") if isinstance(reply, Mapping) else None
        if not isinstance(rows, list):
            raise unexpected("a list at 'data'", reply)
        pictures = [row.get("b64_json") or row.get("url") for row in rows if isinstance(row, Mapping)]
        texts = [picture for picture in pictures if isinstance(picture, str)]
        if len(texts) != len(rows):
            raise unexpected("'b64_json' or 'url' in every row of 'data'", reply)
        return texts

    def _declined(self, status: int, body: Any) -> bool:  # noqa: ANN401
        error = body.get("error") if isinstance(body, Mapping) else None
        return status == 400 and isinstance(error, Mapping) and error.get("code") in _DECLINED


def endpoint(url: httpx.URL, route: str = _GENERATIONS) -> httpx.URL:
    """Return the address to POST to: `url` may be the server, its `/v1`, or the whole address of `/images/generations`."""
    path = url.path.rstrip("/")
    if path.endswith(_GENERATIONS):
        return url if route == _GENERATIONS else url.copy_with(path=path.removesuffix(_GENERATIONS) + route)
    return url.copy_with(path=f"{path.removesuffix('/v1')}/v1{route}")
