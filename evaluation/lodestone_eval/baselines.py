"""Baselines for the full loop: captions matched by the text encoder, and queries rewritten by a language model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lodestone.errors import ConfigurationError, ServiceUnavailableError
from lodestone_eval.ask import EvaluatedAnswer
from lodestone_eval.datasets.base import EvalQuery, one_line, same_text
from lodestone_eval.needle_metrics import RESULTS
from lodestone_schemas.api import MAX_QUERY_CHARS

if TYPE_CHECKING:
    import httpx

    from lodestone.text_encoders.base import TextEncoder

_BATCH: Final = 256
_RETRIES: Final = 2
_PROMPT: Final = (
    "Someone searches a collection of photographs. Rewrite the search below as one plain sentence that could be the caption of"
    " the photograph that is looked for: name the objects, their attributes, what happens and where. Add nothing that the"
    " search does not say or imply. Answer with the sentence alone.\n\nSearch: {query}"
)


def match_captions(
    queries: Sequence[EvalQuery],
    captions: Mapping[str, Sequence[str]],
    encoder: TextEncoder,
    *,
    report_progress: Callable[[int], None] | None = None,
) -> list[EvaluatedAnswer]:
    """Rank pictures by their captions' highest cosine with the query, leaving out the picture's own caption.

    A right picture's caption with the same text as the query does not count, because the query was made from it. Pictures
    without a caption are not found.

    Args:
        queries: The queries to rank for.
        captions: Picture's name -> its captions.
        encoder: The text encoder, warmed up.
        report_progress: Progress callback; gets the number of queries done.
    """
    names = sorted(name for name, texts in captions.items() if texts)
    owners = np.array([position for position, name in enumerate(names) for _ in captions[name]], np.intp)
    texts = [text for name in names for text in captions[name]]
    keys: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        keys.setdefault(same_text(text), []).append(row)
    vectors = _encode(encoder, texts)
    answers = []
    for start in range(0, len(queries), _BATCH):
        batch = queries[start : start + _BATCH]
        scores = _encode(encoder, [query.text for query in batch]) @ vectors.T
        for query, row in zip(batch, scores, strict=True):
            own = [position for position in keys.get(same_text(query.text), ()) if names[owners[position]] in query.relevant]
            row[own] = -np.inf
            best = np.full(len(names), -np.inf, np.float32)
            np.maximum.at(best, owners, row)
            order = [position for position in np.argsort(-best, kind="stable")[: RESULTS * 4] if np.isfinite(best[position])]
            answers.append(
                EvaluatedAnswer(
                    tuple(names[position] for position in order), tuple(float(best[position]) for position in order)
                )
            )
        if report_progress is not None:
            report_progress(start + len(batch))
    return answers


def _encode(encoder: TextEncoder, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    parts = [encoder.encode(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
    return np.concatenate(parts) if parts else np.empty((0, encoder.dim), np.float32)


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Describes a model behind an OpenAI-compatible endpoint.

    Attributes:
        url: Base address, e.g. `http://127.0.0.1:8000/v1`.
        model: Its name there.
        key_env: Environment variable with the credential; no credential is sent when it is not set.
        timeout_s: Time limit of one call, in seconds.
    """

    url: str
    model: str
    key_env: str = "OPENAI_API_KEY"
    timeout_s: float = 60.0


@dataclass(slots=True)
class Rewriter:
    """Rewrites queries into captions, as PlugIR does with what it knows of a search (Lee et al., ACL 2024), in one turn only.

    Rewritten queries are kept in `cache` (a JSON file), so that a repeated run does not call the model again.
    """

    model: LanguageModel
    cache: Path
    failures: dict[str, int] = field(default_factory=dict)

    async def rewrite(
        self, texts: Sequence[str], *, concurrency: int = 4, report_progress: Callable[[int], None] | None = None
    ) -> dict[str, str]:
        """Return query -> the text to search for instead.

        Where the model failed this is the query itself; `failures` counts the failures by reason.

        Raises:
            ServiceUnavailableError: the model failed for every query.
            ConfigurationError: the address cannot be used.
        """
        import httpx

        rewritten = self._read()
        pending = [text for text in dict.fromkeys(texts) if self._key(text) not in rewritten]
        key = os.environ.get(self.model.key_env)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        slots = asyncio.Semaphore(concurrency)
        try:
            client = httpx.AsyncClient(headers=headers, timeout=self.model.timeout_s)
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            raise ConfigurationError(f"--llm {self.model.url!r} cannot be used: {error}", hint="give a base URL") from error

        async def rewrite_one(text: str) -> None:
            async with slots:
                try:
                    rewritten[self._key(text)] = await self._ask(client, text)
                except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, IndexError, TypeError) as error:
                    reason = type(error).__name__
                    self.failures[reason] = self.failures.get(reason, 0) + 1
            if report_progress is not None:
                report_progress(len(rewritten))

        try:
            async with client:
                await asyncio.gather(*(rewrite_one(text) for text in pending))
        finally:
            self._write(rewritten)
        if pending and sum(self.failures.values()) == len(pending) and len(pending) == len(set(texts)):
            raise ServiceUnavailableError(
                f"the language model at {self.model.url} answered none of {len(pending)} queries ({', '.join(self.failures)})",
                hint="check --llm, --llm-model and --llm-key-env",
            )
        return {text: rewritten.get(self._key(text), text) for text in texts}

    async def _ask(self, client: httpx.AsyncClient, text: str) -> str:
        import httpx

        body = {
            "model": self.model.model,
            "messages": [{"role": "user", "content": _PROMPT.format(query=text)}],
            "temperature": 0,
            "max_tokens": 200,
        }
        for attempt in range(_RETRIES + 1):
            try:
                response = await client.post(f"{self.model.url.rstrip('/')}/chat/completions", json=body)
                response.raise_for_status()
                break
            except (httpx.TransportError, httpx.HTTPStatusError):
                if attempt == _RETRIES:
                    raise
                await asyncio.sleep(0.2 * 2**attempt)
        rewritten = one_line(response.json()["choices"][0]["message"]["content"]).strip('"')
        if not rewritten:
            raise ValueError("an empty answer")
        return rewritten[:MAX_QUERY_CHARS]

    def _key(self, text: str) -> str:
        return hashlib.sha256("\0".join((self.model.model, _PROMPT, text)).encode()).hexdigest()

    def _read(self) -> dict[str, str]:
        try:
            known = json.loads(self.cache.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"cannot read {str(self.cache)!r}: {error}", hint="delete the file") from error
        return {str(key): str(value) for key, value in known.items()} if isinstance(known, dict) else {}

    def _write(self, known: Mapping[str, str]) -> None:
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        partial = self.cache.with_suffix(".partial")
        partial.write_text(json.dumps(known, ensure_ascii=False, indent=0), encoding="utf-8")
        partial.replace(self.cache)
