"""What in a plan is a guess, and how many cards make it in time?"""

from __future__ import annotations

import math
from typing import Final

from lodestone.errors import InvalidRequestError
from lodestone.planner.capacity import Cluster, model_rate
from lodestone.planner.rates import ASSUMED, MODELS, REFERENCE_GPU, TIMM, Gpu, Rates
from lodestone.planner.workload import Workload

_MOST_CARDS: Final = 100_000
_MANY: Final = 10_000_000
_MEASURED_TO: Final = 1_000_000


def cards_within(workload: Workload, gpu: Gpu | None, rates: Rates, *, hours: float | None, card_rate: float = 0.0) -> int:
    """Cards whose models look at every picture in so many hours, if nothing else is slower.

    Raises:
        InvalidRequestError: that is no time, or more cards than there are.
    """
    if hours is None or not 0 < hours < math.inf:
        raise InvalidRequestError(f"nothing is done within {hours} hours", hint="e.g. --within-hours 24")
    one = model_rate(workload, Cluster(gpus=1, gpu=gpu, card_rate=card_rate), rates)
    cards = math.ceil(workload.images / (one * hours * 3600))
    if cards > _MOST_CARDS:
        raise InvalidRequestError(f"{cards:,} cards would be needed within {hours:g} hours", hint="allow more hours")
    return cards


def assumptions(workload: Workload, cluster: Cluster, rates: Rates) -> tuple[str, ...]:
    """Every figure of a plan that was not measured where it is used, and where it is from; the dearest guesses first."""
    said = [*workload.notes]
    if cluster.gpus and cluster.card_rate:
        said.append(f"one card does {cluster.card_rate:g} images/s, as given")
    elif cluster.gpu is not None:
        said += _about_cards(workload, cluster.gpu, rates)
    else:
        said.append(f"a core does {rates.core_gmacs:.0f} GMAC/s ({rates.source('core_gmacs')})")
    decoded = 1 / rates.decode_seconds(workload.megapixels)
    scaled = "" if math.isclose(workload.megapixels, rates.decode_megapixels, rel_tol=0.05) else "on the measured curve, from "
    said.append(f"a core decodes {decoded:,.0f} images/s ({scaled}{rates.source('decode')})")
    if workload.objects:
        said.append(f"{rates.object_wait_s * 1000:.0f} ms to an object's first byte ({_plain(rates.source('object_wait_s'))})")
    if workload.images > _MEASURED_TO:
        said.append(f"graphs and searches grow as measured up to {_MEASURED_TO:,} points; nothing larger was built")
    if workload.images > _MANY and workload.guides > 1:
        unmerged = len(workload.spaces) * (1 + workload.guides)
        said.append(
            "a guess: guides merged into two searches a space above ten million pictures, as designed;"
            f" queries do not merge them yet and make {unmerged} in each shard"
        )
    if cluster.gpus + cluster.model_cores > 1:
        said.append("network and cores are yours alone; the driver's machine writes to catalog and store at these rates")
    return tuple(said)


def _about_cards(workload: Workload, gpu: Gpu, rates: Rates) -> list[str]:
    published = [name for name in workload.models if name in MODELS and MODELS[name].reference is not None]
    unknown = [name for name in workload.models if name not in published]
    said = []
    if published and gpu.name == REFERENCE_GPU.name:
        said.append(f"models as published: {TIMM}")
    elif published:
        said.append(
            f"a guess, right within a factor of two: {gpu.name} scaled from {TIMM} by peak and memory bandwidth;"
            " measure one card, then give --card-rate"
        )
    share = f"{rates.gpu_utilisation:.0%}"
    said += [f"a guess: {name} reaches {share} of the card's peak; nobody published its rate" for name in unknown]
    if any(not name.startswith(("timm:", "open_clip:")) for name in workload.models):
        said.append("the wheels' own models run on a card only with a CUDA build of ONNX Runtime; not measured")
    return said


def _plain(source: str) -> str:
    return source.removeprefix(f"{ASSUMED}: ")
