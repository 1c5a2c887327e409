"""Guide engine for Google's Imagen: `…:predict`, at the Gemini API with a key or at Vertex AI with a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import httpx
from pydantic import Field

from lodestone.errors import ServiceUnavailableError
from lodestone.generators.base import GuideRequest
from lodestone.generators.engines.http import HttpGenerator, HttpOptions, unexpected

_VERTEX: Final = "aiplatform.googleapis.com"


class ImagenOptions(HttpOptions):
    """`options` of `kind = "imagen"`."""

    auth: Literal["key", "token"] | None = Field(
        None, description="key: `x-goog-api-key`; token: `Authorization: Bearer`; default: token at Vertex AI, else key."
    )
    send_seed: bool | None = Field(None, description="Send `seed` (and no watermark); default: at Vertex AI, which knows it.")


class Imagen(HttpGenerator):
    """Generator `imagen`, which calls Google's service.

    `url` is the service, or the whole address up to `:predict`; `model` is e.g. `imagen-4.0-fast-generate-001`.
    """

    options_type = ImagenOptions
    default_url = "https://generativelanguage.googleapis.com"
    needs_model = True

    def _key_header(self) -> tuple[str, str]:
        return super()._key_header() if self._by_token() else ("x-goog-api-key", "")

    async def _ask(self, request: GuideRequest, deadline: float) -> Sequence[str]:
        options = self._imagen
        parameters: dict[str, Any] = {"sampleCount": request.n, "aspectRatio": "1:1"}
        if options.send_seed if options.send_seed is not None else self._vertex():
            parameters |= {"seed": self._seed(request), "addWatermark": False}
        body = {"instances": [{"prompt": request.prompt}], "parameters": {**parameters, **options.extra}}
        reply = await self._http.post(self._endpoint(), body, deadline=deadline)
        rows = reply.get("predictions", None if reply else []) if isinstance(reply, Mapping) else None
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise unexpected("a list at 'predictions'", reply)
        pictures = [row["bytesBase64Encoded"] for row in rows if isinstance(row.get("bytesBase64Encoded"), str)]
        if not pictures:  # pictures that its filters withhold are left out, or replaced by a reason
            reasons = [str(row["raiFilteredReason"]) for row in rows if row.get("raiFilteredReason")]
            raise ServiceUnavailableError(
                f"generator {self.name!r} withheld its pictures{f': {reasons[0][:200]}' if reasons else ''}",
                hint="the service does not draw these words",
                declined=True,
                charged=False,
            )
        return pictures

    @property
    def _imagen(self) -> ImagenOptions:
        assert isinstance(self._options, ImagenOptions)  # noqa: S101  (`options_type`)
        return self._options

    def _vertex(self) -> bool:
        return self._url.host.endswith(_VERTEX)

    def _by_token(self) -> bool:
        return self._imagen.auth == "token" or (self._imagen.auth is None and self._vertex())

    def _endpoint(self) -> httpx.URL:
        path = self._url.path.rstrip("/")
        if path.endswith(":predict"):
            return self._url
        if "/models" not in path:
            path = f"{path.removesuffix('/v1beta')}/v1beta/models"
        return self._url.copy_with(path=f"{path}/{self._settings.model}:predict")
