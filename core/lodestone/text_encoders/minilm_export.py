"""Export of MiniLM's weights as an ONNX graph; it imports torch, so import it only when a conversion is needed.

The graph maps `ids` and `mask` (n, t) int64 to `vectors` (n, 384) float32, mean-pooled over the tokens that `mask` keeps and
L2-normalised. It is a compact BERT encoder (Devlin et al., 2019) in evaluation mode, with the checkpoint's parameter names.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

OPSET = 17
_MASKED = -1e9  # added to the attention scores of padding


class MiniBert(nn.Module):
    """Applies the BERT encoder, mean pooling and L2 normalisation.

    Args:
        config: The checkpoint's `config.json`.
        weights: The checkpoint's tensors.
    """

    def __init__(self, config: dict[str, int | float | str], weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.layers = int(config["num_hidden_layers"])
        self.heads = int(config["num_attention_heads"])
        self.width = int(config["hidden_size"])
        self.eps = float(config["layer_norm_eps"])
        for name, tensor in weights.items():
            self.register_buffer(name.replace(".", "__"), tensor.to(torch.get_default_dtype()), persistent=False)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map (n, t) token ids and a 0/1 mask to (n, width) vectors, L2-normalised."""
        x = functional.embedding(ids, self._tensor("embeddings.word_embeddings.weight"))
        x = x + self._tensor("embeddings.position_embeddings.weight")[: ids.shape[1]]
        x = self._norm(x + self._tensor("embeddings.token_type_embeddings.weight")[0], "embeddings.LayerNorm")
        keep = mask.to(x.dtype)
        bias = (1.0 - keep)[:, None, None, :] * _MASKED
        for layer in range(self.layers):
            prefix = f"encoder.layer.{layer}"
            x = self._norm(x + self._attention(x, bias, f"{prefix}.attention"), f"{prefix}.attention.output.LayerNorm")
            hidden = functional.gelu(self._linear(x, f"{prefix}.intermediate.dense"))
            x = self._norm(x + self._linear(hidden, f"{prefix}.output.dense"), f"{prefix}.output.LayerNorm")
        pooled = (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
        return functional.normalize(pooled, dim=-1)

    def _attention(self, x: Tensor, bias: Tensor, prefix: str) -> Tensor:
        n, t = x.shape[0], x.shape[1]
        query, key, value = (
            self._linear(x, f"{prefix}.self.{part}").view(n, t, self.heads, -1).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(2, 3) * (self.width // self.heads) ** -0.5 + bias
        mixed = (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(n, t, self.width)
        return self._linear(mixed, f"{prefix}.output.dense")

    def _tensor(self, name: str) -> Tensor:
        return self.get_buffer(name.replace(".", "__"))

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self._tensor(f"{name}.weight"), self._tensor(f"{name}.bias"))

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self._tensor(f"{name}.weight"), self._tensor(f"{name}.bias")
        return functional.layer_norm(x, (self.width,), weight, bias, self.eps)


def export(weights: Path, target: Path) -> None:
    """Write the ONNX graph to `target`; `config.json` is read from the weights' folder."""
    config = json.loads(weights.with_name("config.json").read_text("utf8"))
    tensors = {name: value for name, value in load_file(weights).items() if value.is_floating_point()}
    model = MiniBert(config, tensors).eval()
    example = (torch.ones(2, 8, dtype=torch.int64), torch.ones(2, 8, dtype=torch.int64))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracing exporter is deprecated, but needs no onnxscript
        torch.onnx.export(
            model,
            example,
            str(target),
            input_names=["ids", "mask"],
            output_names=["vectors"],
            dynamic_axes={"ids": {0: "n", 1: "t"}, "mask": {0: "n", 1: "t"}, "vectors": {0: "n"}},
            opset_version=OPSET,
            dynamo=False,
        )
