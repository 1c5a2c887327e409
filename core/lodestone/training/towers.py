"""Contrastive training of the two towers on pairs, from nothing or from existing towers.

The loss is CLIP's symmetric cross-entropy (Radford et al., 2021) over a batch, with one change: pairs whose texts are the same
share the target, so that a caption used twice is no contradiction. An update starts from existing towers and must keep what
they know: half of each batch is drawn from the averages that are stored with them (`Rehearsal`), and on those the new towers
are trained to give the old ones' vectors (distillation, as in Learning without Forgetting, Li and Hoiem, 2016). Training is
deterministic for a seed on one machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.spaces.bridge_arrays import Array, Rehearsal, Tower
from lodestone.training.phrases import PhrasePairs

if TYPE_CHECKING:
    import torch

_SAME_TEXT: Final = 0.9999  # cosine above which two texts of a batch count as the same
_NOISE: Final = 0.1  # standard deviation of the noise on pictures' components, a tenth of a typical one
_PICTURE_DROPOUT: Final = 0.5
_TEXT_DROPOUT: Final = 0.2
_TRANSLATED: Final = 0.75  # share of drawn texts that stand for a version in another language
_TEMPLATED: Final = 0.3  # share of drawn phrases that are "a photo of a ..."


Stepped = Callable[[], None]


def nothing() -> None:
    """Do nothing after a step: for training that nobody watches."""


@dataclass(frozen=True, slots=True)
class TowerSettings:
    """Holds the settings of training towers; the defaults were chosen on the validation part (docs/quality.md).

    Attributes:
        hidden: Width of the towers' hidden layer; an update takes the base's.
        out: Length of their vectors; an update takes the base's.
        epochs: Passes over the pictures.
        batch: Pictures in a step.
        rate: Peak learning rate.
        decay: AdamW's weight decay.
        class_share: Class pairs (training/classes.py) in a step, as a share of the pictures.
        phrase_share: Share of the pictures in a step that are shown with a phrase of a caption instead of a caption.
        update_steps: Steps of an update.
        update_batch: New pictures in each step of an update.
        update_rate: Peak learning rate of an update.
        rehearsed: Rehearsed pairs in a step of an update.
        hold: Weight of the distillation in an update.
    """

    hidden: int = 1024
    out: int = 256
    epochs: int = 40
    batch: int = 512
    rate: float = 2e-3
    decay: float = 0.1
    class_share: float = 0.15
    phrase_share: float = 0.3
    update_steps: int = 60
    update_batch: int = 256
    update_rate: float = 2e-3
    rehearsed: int = 192
    hold: float = 30.0

    def steps(self, pictures: int, *, update: bool) -> int:
        """Return the steps of training one pair of towers on so many pictures."""
        return self.update_steps if update else self.epochs * max(1, pictures // min(self.batch, pictures))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Holds pictures and their texts: picture i belongs to every text whose owner is i.

    Attributes:
        pictures: (n, k) principal components.
        texts: (m, d) inputs of the text tower.
        owner: (m,) row of the picture.
        phrases: Phrases of the texts; None where there are none.
        phrase_share: Share of the drawn texts that are phrases, of pictures that have one.
        differences: (r, d) how versions of a text in other languages differ from it, as inputs of the text tower; None where
            there is one language. One of them is added to most of the texts that are drawn, so that the tower learns to
            overlook them.
    """

    pictures: Array
    texts: Array
    owner: NDArray[np.intp]
    phrases: PhrasePairs | None = None
    phrase_share: float = 0.0
    differences: Array | None = None

    def sampler(self) -> Callable[[np.random.Generator, NDArray[np.intp]], tuple[Array, Array]]:
        """Return a function that draws one text for each of the given pictures, which must have one."""
        order = np.argsort(self.owner, kind="stable")
        count = np.bincount(self.owner, minlength=len(self.pictures))
        start = np.cumsum(count) - count
        phrase_of = None if self.phrases is None else _phrase_sampler(self.phrases, len(self.pictures))

        def draw(rng: np.random.Generator, rows: NDArray[np.intp]) -> tuple[Array, Array]:
            texts = self.texts[order[start[rows] + rng.integers(0, count[rows])]]
            if phrase_of is not None:
                short, has_one = phrase_of(rng, rows)
                texts = np.where((has_one & (rng.random(len(rows)) < self.phrase_share))[:, None], short, texts)
            if self.differences is not None:
                translated = rng.random((len(rows), 1)) < _TRANSLATED
                texts = texts + translated * self.differences[rng.integers(0, len(self.differences), len(rows))]
            return self.pictures[rows], texts.astype(np.float32, copy=False)

        return draw


def _phrase_sampler(
    phrases: PhrasePairs, pictures: int
) -> Callable[[np.random.Generator, NDArray[np.intp]], tuple[Array, NDArray[np.bool_]]]:
    """Return a function that draws one phrase for each of the given pictures, and says which of them have one."""
    order = np.argsort(phrases.owner, kind="stable")
    count = np.bincount(phrases.owner, minlength=pictures)
    start = np.cumsum(count) - count

    def draw(rng: np.random.Generator, rows: NDArray[np.intp]) -> tuple[Array, NDArray[np.bool_]]:
        has_one = count[rows] > 0
        places = np.where(has_one, start[rows] + rng.integers(0, np.maximum(count[rows], 1)), 0)
        template = (rng.random(len(rows)) < _TEMPLATED).astype(np.intp)
        return phrases.texts[template, phrases.phrase[order[places]]], has_one

    return draw


@dataclass(frozen=True, slots=True)
class _Step:
    pictures: Array
    texts: Array
    held: int = 0  # how many of the last rows are trained to give the old towers' vectors


def train_towers(
    pairs: Pairs, classes: Pairs | None, *, seed: int, settings: TowerSettings, stepped: Stepped = nothing
) -> tuple[Tower, Tower, float]:
    """Train towers from nothing.

    Args:
        pairs: The captioned pictures; every picture has at least one text.
        classes: Class pairs to mix in, or None.
        seed: Seed of the initial weights, order, choice of captions and noise.
        settings: Settings of the training.
        stepped: Called after each step.

    Returns:
        The picture tower, the text tower and the mean loss over the last tenth of the steps.
    """
    rng = np.random.default_rng(seed)
    draw, n = pairs.sampler(), len(pairs.pictures)
    size = min(settings.batch, n)
    steps = settings.steps(n, update=False)
    draw_class = classes.sampler() if classes is not None else None
    queue: list[NDArray[np.intp]] = []

    def batch() -> _Step:
        if not queue:
            order = rng.permutation(n)
            queue.extend(order[i * size : (i + 1) * size] for i in range(max(1, n // size)))
        x, t = draw(rng, queue.pop(0))
        if classes is not None and draw_class is not None:
            rows = rng.choice(
                len(classes.pictures), min(int(settings.class_share * size), len(classes.pictures)), replace=False
            )
            more_x, more_t = draw_class(rng, rows)
            x, t = np.vstack([x, more_x]), np.vstack([t, more_t])
        return _Step(x, t)

    shape = (pairs.pictures.shape[1], pairs.texts.shape[1])
    return _optimise(batch, None, steps=steps, shape=shape, rng=rng, rate=settings.rate, settings=settings, stepped=stepped)


def update_towers(
    base: tuple[Tower, Tower],
    pairs: Pairs,
    rehearsal: Rehearsal,
    *,
    as_read: Callable[[Array], Array],
    seed: int,
    settings: TowerSettings,
    stepped: Stepped = nothing,
) -> tuple[Tower, Tower, float]:
    """Train existing towers further with new pairs.

    Args:
        base: The picture and the text tower to start from, whose vectors are kept for rehearsed pairs.
        pairs: The new pairs; one is enough.
        rehearsal: Averages that replace the pairs that `base` was trained on.
        as_read: Maps (n, d) text vectors to inputs of the text tower.
        seed: Seed of order, choice of captions and noise.
        settings: Settings of the training.
        stepped: Called after each step.

    Returns:
        The picture tower, the text tower and the mean loss over the last tenth of the steps.
    """
    rng = np.random.default_rng(seed)
    draw, n = pairs.sampler(), len(pairs.pictures)
    share = rehearsal.counts / rehearsal.counts.sum()

    def batch() -> _Step:
        x, t = draw(rng, rng.permutation(n)[: settings.update_batch])
        old_x, old_t = sample(rehearsal, settings.rehearsed, rng, share)
        return _Step(np.vstack([x, old_x]), np.vstack([t, as_read(old_t)]), held=settings.rehearsed)

    shape = (pairs.pictures.shape[1], pairs.texts.shape[1])
    steps, rate = settings.steps(n, update=True), settings.update_rate
    return _optimise(batch, base, steps=steps, shape=shape, rng=rng, rate=rate, settings=settings, stepped=stepped)


def sample(rehearsal: Rehearsal, n: int, rng: np.random.Generator, share: NDArray[np.float32]) -> tuple[Array, Array]:
    """Draw n pairs from a rehearsal: (n, k) pictures and (n, d) texts.

    Each pair is the mean of a group, drawn by its share, plus normal noise of the spread within groups.
    """
    rows = rng.choice(len(share), n, p=share / share.sum())
    noise = rng.standard_normal((n, rehearsal.pictures.shape[1]), np.float32)
    text_noise = rng.standard_normal((n, rehearsal.texts.shape[1]), np.float32)
    pictures = rehearsal.pictures[rows] + noise * rehearsal.picture_spread
    return pictures, rehearsal.texts[rows] + text_noise * rehearsal.text_spread


def _optimise(
    batch: Callable[[], _Step],
    base: tuple[Tower, Tower] | None,
    *,
    steps: int,
    shape: tuple[int, int],
    rng: np.random.Generator,
    rate: float,
    settings: TowerSettings,
    stepped: Stepped,
) -> tuple[Tower, Tower, float]:
    import torch
    from torch.nn import functional

    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    if base is None:
        picture, text = (_initial(d, settings.hidden, settings.out, generator) for d in shape)
    else:
        picture, text = (_from_tower(tower) for tower in base)
    old = [[p.detach().clone() for p in net] for net in (picture, text)]
    scale = torch.nn.Parameter(torch.tensor(2.6))  # e^2.6 = 13.5 is also where training from nothing ends
    parameters = [*picture, *text, scale]
    optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=settings.decay if base is None else 0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=max(steps, 2))
    losses = []
    for _ in range(steps):
        step = batch()
        x, t = torch.from_numpy(step.pictures), torch.from_numpy(step.texts)
        noisy = x + _NOISE * torch.randn(x.shape, generator=generator)
        a = _forward(picture, noisy, _PICTURE_DROPOUT, generator)
        b = _forward(text, t, _TEXT_DROPOUT, generator)
        target = _targets(t)
        logits = a @ b.T * scale.exp()
        loss = (functional.cross_entropy(logits, target) + functional.cross_entropy(logits.T, target)) / 2
        if step.held:
            for net, before, rows in ((picture, old[0], x), (text, old[1], t)):
                kept = rows[-step.held :]
                with torch.no_grad():
                    aim = _forward(before, kept, 0.0, generator)
                loss = loss + settings.hold * (1 - (_forward(net, kept, 0.0, generator) * aim).sum(1)).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        optimiser.step()
        schedule.step()
        losses.append(float(loss.detach()))
        stepped()
    return _to_tower(picture), _to_tower(text), float(np.mean(losses[-max(1, steps // 10) :]))


def _targets(texts: torch.Tensor) -> torch.Tensor:
    """Return which texts of the batch are right for each picture: (n, n) rows that sum to 1."""
    from torch.nn import functional

    same = functional.normalize(texts, dim=1)
    shared = ((same @ same.T) > _SAME_TEXT).float()
    shared.fill_diagonal_(1.0)
    return shared / shared.sum(1, keepdim=True)


def _forward(net: list[Any], rows: torch.Tensor, dropout: float, generator: torch.Generator) -> torch.Tensor:
    from torch.nn import functional

    line, up, up_bias, down, bias = net
    hidden = (_drop(rows, dropout, generator) @ up + up_bias).relu()
    return functional.normalize(rows @ line + _drop(hidden, dropout, generator) @ down + bias, dim=1)


def _drop(rows: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    """Apply dropout with its own generator, because torch's dropout uses the global one, which a caller may share."""
    import torch

    if share == 0.0:
        return rows
    return rows * (torch.rand(rows.shape, generator=generator) >= share) / (1 - share)


def _initial(d: int, hidden: int, out: int, generator: torch.Generator) -> list[Any]:
    """Return parameters in the order of `Tower`, uniform within 1 / sqrt(fan in) as in torch's linear layers."""
    import torch

    def uniform(fan: int, *size: int) -> Any:  # noqa: ANN401  # torch is not imported at module level
        return torch.nn.Parameter((torch.rand(size, generator=generator) * 2 - 1) / fan**0.5)

    return [uniform(d, d, out), uniform(d, d, hidden), uniform(d, hidden), uniform(hidden, hidden, out), uniform(hidden, out)]


def _from_tower(tower: Tower) -> list[Any]:
    import torch

    return [torch.nn.Parameter(torch.from_numpy(getattr(tower, name).copy())) for name in Tower.__slots__]


def _to_tower(net: list[Any]) -> Tower:
    return Tower(*(p.detach().numpy().copy() for p in net))
