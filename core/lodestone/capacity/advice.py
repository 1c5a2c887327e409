"""Advice about a plan: the assumptions in it, and how many graphics cards meet a deadline."""

from __future__ import annotations

import math
from typing import Final

from lodestone.capacity.formulas import Cluster, model_rate
from lodestone.capacity.rates import ASSUMED, MODELS, REFERENCE_GPU, TIMM, Gpu, Rates
from lodestone.capacity.workload import Workload
from lodestone.errors import InvalidRequestError
from lodestone.store.limits import MERGE_ABOVE

_MOST_CARDS: Final = 100_000
_MEASURED_TO: Final = 1_000_000


def cards_within(workload: Workload, gpu: Gpu | None, rates: Rates, *, hours: float | None, card_rate: float = 0.0) -> int:
    """Return how many cards run the models on every picture within so many hours, if no other stage is slower.

    Args:
        workload: What is to be indexed.
        gpu: Kind of card; None where only `card_rate` is known.
        rates: Rates of hardware.
        hours: Time limit, in hours.
        card_rate: Measured rate of one card, in pictures a second; 0 to derive it from `gpu`.

    Raises:
        InvalidRequestError: `hours` is no time, or more than 100,000 cards would be needed.
    """
    if hours is None or not 0 < hours < math.inf:
        raise InvalidRequestError(f"nothing is done within {hours} hours", hint="e.g. --within-hours 24")
    card_pace = model_rate(workload, Cluster(gpus=1, gpu=gpu, card_rate=card_rate), rates)
    cards = math.ceil(workload.images / (card_pace * hours * 3600))
    if cards > _MOST_CARDS:
        raise InvalidRequestError(f"{cards:,} cards would be needed within {hours:g} hours", hint="allow more hours")
    return cards


def assumptions(workload: Workload, cluster: Cluster, rates: Rates) -> tuple[str, ...]:
    """Return every figure of a plan that was not measured on the planned hardware, with its source.

    The guesses with the largest effect come first.
    """
    sentences = [*workload.notes]
    if cluster.gpus and cluster.card_rate:
        sentences.append(f"one card does {cluster.card_rate:g} images/s, as given")
    elif cluster.gpu is not None:
        sentences += _about_cards(workload, cluster.gpu, rates)
    else:
        sentences.append(f"a core does {rates.core_gmacs:.0f} GMAC/s ({rates.source('core_gmacs')})")
    decoded = 1 / rates.decode_seconds(workload.megapixels)
    scaled = "" if math.isclose(workload.megapixels, rates.decode_megapixels, rel_tol=0.05) else "on the measured curve, from "
    sentences.append(f"a core decodes {decoded:,.0f} images/s ({scaled}{rates.source('decode')})")
    if workload.objects:
        sentences.append(
            f"{rates.object_wait_s * 1000:.0f} ms to an object's first byte ({_plain(rates.source('object_wait_s'))}),"
            f" {rates.object_write_s * 1000:.0f} ms a write ({_plain(rates.source('object_write_s'))})"
        )
    if workload.images > _MEASURED_TO:
        sentences.append(f"graphs and searches grow as measured up to {_MEASURED_TO:,} points; nothing larger was built")
    if workload.images > MERGE_ABOVE and workload.guides > 1:
        sentences.append(
            "guides are merged into one search a space beside that of the words (query.merge_above); its recall was measured on"
            " small collections alone"
        )
    if cluster.gpus + cluster.model_cores > 1:
        sentences.append("network and cores are yours alone; the driver's machine writes to catalog and store at these rates")
    return tuple(sentences)


def _about_cards(workload: Workload, gpu: Gpu, rates: Rates) -> list[str]:
    published = [name for name in workload.models if name in MODELS and MODELS[name].reference is not None]
    unknown = [name for name in workload.models if name not in published]
    sentences = []
    if published and gpu.name == REFERENCE_GPU.name:
        sentences.append(f"models as published: {TIMM}")
    elif published:
        sentences.append(
            f"a guess, right within a factor of two: {gpu.name} scaled from {TIMM} by peak and memory bandwidth;"
            " measure one card, then give --card-rate"
        )
    share = f"{rates.gpu_utilisation:.0%}"
    sentences += [f"a guess: {name} reaches {share} of the card's peak; nobody published its rate" for name in unknown]
    if any(not name.startswith(("timm:", "open_clip:")) for name in workload.models):
        sentences.append("the wheels' own models run on a card only with a CUDA build of ONNX Runtime; not measured")
    return sentences


def _plain(source: str) -> str:
    return source.removeprefix(f"{ASSUMED}: ")
