"""Guide engine on this machine: a pipeline of diffusers (SD-Turbo, SDXL-Turbo, FLUX-schnell, or any other).

`model` is a preset, a repository of the hub, or a local directory. Guide number i has a seed of its own, made of the request's
seed and i: it is the same picture in every round and in every batch, but for rounding (one step of a colour). Drawing runs in a
thread, one call of the pipeline at a time, and each call's pictures are passed on when it ends. On a GPU a call draws several
pictures of a request, fewer when its memory does not hold them. Drawing stops within a denoising step once the deadline has
passed or the request was cancelled. With `init_image` every guide starts from that picture. A request's own picture is edited
by the image-to-image pipeline of the same weights, in that picture's shape. A picture that the pipeline's safety checker
withholds, or of a single colour, is not returned.

Options: `steps`, `guidance`, `variant` (of the weights, e.g. `fp16`), `device` (`cpu`, `cuda`, `cuda:1`), `init_image` (a
file), `strength` (how far from it, in (0, 1]), `batch` (pictures of one call of the pipeline).
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import logging
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.clock import remaining
from lodestone.config.engines import EngineSettings
from lodestone.errors import DeadlineExceededError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.generators.engines.diffusers_options import DEFAULT_MODEL, PRESETS, DiffusersOptions
from lodestone.generators.engines.diffusers_pipeline import editing_pipeline, fitted, is_out_of_memory, open_pipeline
from lodestone.models.cache import fingerprint, hash_file
from lodestone.models.checkpoints import is_directory
from lodestone.models.packages import import_library

if TYPE_CHECKING:
    from PIL import Image

ADAPTER_VERSION: Final = "1"  # raise it when the same model, prompt and seed would give other pictures
_INSTALL: Final = "pip install 'lodestone-search[diffusers]'"
_MULTIPLE: Final = 16  # pixels; sides must be multiples of it for the latents of every family
_START_PX: Final = 1024  # side of an init picture: no preset draws larger ones
_MAX_DECODED_BYTES: Final = 128 << 20  # limit for an init picture
_BATCH_ON_GPU: Final = 4  # on a CPU, pictures of one call take as long as calls of one picture, and all come late
_log = logging.getLogger(__name__)


class Diffusers(Generator):
    """A generator that runs a pipeline of diffusers.

    Args:
        settings: `model` (default `sd-turbo`) and `options`, see the module's docstring.
        name: Name of the engine; its guides are `name/0`, `name/1`, …

    Raises:
        ConfigurationError: an option is unknown or out of range.

    Example:
        >>> engine = Diffusers(EngineSettings(kind="diffusers", model="sdxl-turbo", size=512), "sdxl-turbo")
        >>> guides = await engine.generate(GuideRequest("a red kite", "a red kite", n=2, size=512))
    """

    edits = True

    def __init__(self, settings: EngineSettings, name: str = "diffusers") -> None:
        self.name = name
        self._source = settings.model or DEFAULT_MODEL
        self._preset = PRESETS.get(self._source)
        self._options = DiffusersOptions.of(settings.options, engine=name)
        self._pipe: Any = None
        self._editor: Any = None  # shares the weights of `_pipe`
        self._takes: frozenset[str] = frozenset()
        self._editor_takes: frozenset[str] = frozenset()
        self._batch = self._options.batch or 1
        self._lock = threading.Lock()  # a pipeline holds the state of the picture that it draws

    @property
    def model(self) -> str:
        """Return the hub's repository or the directory."""
        return self._preset.repository if self._preset else self._source

    @property
    def version(self) -> str:  # type: ignore[override]  # read from the model's files
        """Return a version that changes whenever the same prompt and seed would give other pictures. Loads nothing."""
        options = self._options
        picture = options.init_image.expanduser() if options.init_image else None
        start = (hash_file(picture), str(options.strength)) if picture and picture.is_file() else ()
        drawing = repr((self._steps, self._guidance, options.variant))
        return fingerprint(ADAPTER_VERSION, self.model, self._revision(), drawing, *start)[:12]

    @property
    def _steps(self) -> int | None:
        return self._options.steps or (self._preset.steps if self._preset else None)

    @property
    def _guidance(self) -> float | None:
        if self._options.guidance is not None:
            return self._options.guidance
        return self._preset.guidance if self._preset else None

    async def warm_up(self) -> None:
        """Load the pipeline, onto the GPU where there is one.

        Takes seconds; fetches the model from the hub if there is no local copy.

        Raises:
            ModelUnavailableError: diffusers is not installed, or the model is not available.
            ConfigurationError: there is no such device.
            ImageError: the init picture cannot be read.
        """
        await asyncio.to_thread(self._load)

    async def generate(self, request: GuideRequest) -> list[Guide]:
        """Draw the pictures in turn; numbers of pictures that the safety checker withheld are missing.

        Raises:
            DeadlineExceededError: the deadline passed before the first guide.
            ModelUnavailableError: see `warm_up`.
        """
        async with aclosing(self.stream(request)) as batches:
            return [guide async for guides in batches for guide in guides]

    async def stream(self, request: GuideRequest) -> AsyncGenerator[list[Guide], None]:
        """Yield the pictures of each call of the pipeline when it ends; raises as `generate`."""
        given_up = threading.Event()
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[list[Guide] | None] = asyncio.Queue()

        def deliver(guides: list[Guide]) -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
                loop.call_soon_threadsafe(arrived.put_nowait, guides)

        drawing = asyncio.create_task(asyncio.to_thread(self._draw_all, request, given_up, deliver))
        drawing.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            while (guides := await arrived.get()) is not None:
                yield guides
            await drawing
        finally:
            given_up.set()  # the thread ends at its next step
            drawing.cancel()

    def _draw_all(self, request: GuideRequest, given_up: threading.Event, deliver: Callable[[list[Guide]], None]) -> None:
        self._load()
        until = remaining(request.deadline)
        if not self._lock.acquire(timeout=-1 if math.isinf(until) else until):
            raise DeadlineExceededError(f"{self.name} was busy with other queries", hint="allow the query more time")
        try:
            self._draw_each(request, given_up, deliver)
        finally:
            self._lock.release()

    def _draw_each(self, request: GuideRequest, given_up: threading.Event, deliver: Callable[[list[Guide]], None]) -> None:
        next_number, end, longest = request.first, request.first + request.n, 0.0
        while next_number < end:
            if given_up.is_set() or remaining(request.deadline) <= longest:  # another call would not be finished in time
                break
            numbers = range(next_number, min(next_number + self._batch, end))
            started = time.monotonic()
            try:
                drawn = self._draw(request, numbers, given_up)
            except _Stopped:
                break
            except Exception as error:
                if not is_out_of_memory(error) or len(numbers) == 1:
                    raise
                self._batch = len(numbers) // 2
                _log.warning(
                    "%s: the GPU's memory does not hold %d pictures; %d from now on", self.name, len(numbers), self._batch
                )
                continue
            next_number, longest = numbers.stop, max(longest, time.monotonic() - started)
            guides = [self._guide(request, number, pixels) for number, pixels in drawn.items()]
            if guides:
                deliver(guides)
        if request.n > 0 and next_number == request.first and not given_up.is_set():
            raise DeadlineExceededError(f"{self.name} could not finish a picture in time", hint="allow the query more time")

    def _draw(self, request: GuideRequest, numbers: range, given_up: threading.Event) -> dict[int, NDArray[np.uint8]]:
        """Return guide number -> picture, by one call of the pipeline.

        Pictures of a single colour, and those that the pipeline's safety checker withheld, are missing.
        """
        import torch

        def stop_in_time(_pipe: Any, _step: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
            if given_up.is_set() or remaining(request.deadline) <= 0:
                raise _Stopped
            return tensors

        pipe, takes, start, strength = self._pipe, self._takes, self._start, self._options.strength
        width = height = max(_MULTIPLE, request.size - request.size % _MULTIPLE)
        if request.edit is not None:
            pipe, takes = self._editing()
            start, strength = fitted(request.edit.pixels, request.size, _MULTIPLE), request.edit.strength
            width, height = start.size
        steps, guidance = self._steps, self._guidance
        # A CPU generator gives the same numbers on every device.
        generators = [torch.Generator("cpu").manual_seed(_seed(request.seed, number)) for number in numbers]
        arguments: dict[str, Any] = {
            "prompt": request.prompt,
            "generator": generators if len(generators) > 1 else generators[0],
            "num_images_per_prompt": len(generators),
            "width": width,
            "height": height,
            "num_inference_steps": steps,
            "guidance_scale": guidance,
            "callback_on_step_end": stop_in_time,
        }
        if start is not None:
            arguments |= {"image": start.resize((width, height)), "strength": strength}
            # Only this share of the steps is taken, and it must be at least one.
            arguments["num_inference_steps"] = max(steps or 1, math.ceil(1 / strength)) if steps else None
        arguments = {key: value for key, value in arguments.items() if value is not None and key in takes}
        with torch.inference_mode():
            drawn = pipe(**arguments)
        withheld = getattr(drawn, "nsfw_content_detected", None) or [False] * len(numbers)
        pictures: dict[int, NDArray[np.uint8]] = {}
        for number, image, hidden in zip(numbers, drawn.images, withheld, strict=True):
            pixels = np.asarray(image.convert("RGB"), dtype=np.uint8)
            if not hidden and (pixels != pixels[0, 0]).any():
                pictures[number] = pixels
        return pictures

    def _guide(self, request: GuideRequest, number: int, pixels: NDArray[np.uint8]) -> Guide:
        provenance: dict[str, Any] = {
            "version": self.version,
            "model": self.model if not is_directory(self.model) else Path(self.model).name,
            "prompt": request.prompt,
            "seed": _seed(request.seed, number),
            "steps": self._steps,
            "guidance": self._guidance,
        }
        if request.edit is not None:
            provenance |= {"strength": request.edit.strength}
        elif self._options.init_image is not None:
            provenance |= {"init_image": self._options.init_image.name, "strength": self._options.strength}
        return Guide(f"{self.name}/{number}", self.name, 1.0, provenance, pixels=pixels)

    @cached_property
    def _start(self) -> Image.Image | None:
        if self._options.init_image is None:
            return None
        from lodestone.imaging.decode import decode

        return decode(self._options.init_image.expanduser(), min_side=_START_PX, max_decoded_bytes=_MAX_DECODED_BYTES).image

    def _revision(self) -> str:
        """Return the revision of the model files: a directory's names, sizes and times, or the hub's commit."""
        if is_directory(self.model):
            folder = Path(self.model).expanduser()
            files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
            facts = [(str(f.relative_to(folder)), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
            return fingerprint(repr(facts))
        if importlib.util.find_spec("huggingface_hub") is None:
            return ""
        from huggingface_hub import try_to_load_from_cache

        config_file = try_to_load_from_cache(self.model, "model_index.json")
        return Path(config_file).parent.name if isinstance(config_file, str) else ""

    def _load(self) -> None:
        with self._lock:
            if self._pipe is not None:
                return
            import_library(
                "diffusers",
                "AutoPipelineForText2Image",
                "AutoPipelineForImage2Image",
                install=_INSTALL,
                needed_by=f"the engine {self.name!r}",
            )
            _ = self._start
            from lodestone.models.torch_device import choose_device

            device = choose_device(self._options.device)
            pipe = self._open(device.type).to(device)
            pipe.set_progress_bar_config(disable=True)
            self._takes = frozenset(inspect.signature(pipe.__call__).parameters)
            if "num_images_per_prompt" not in self._takes:
                self._batch = 1
            elif self._options.batch is None and device.type != "cpu":
                self._batch = _BATCH_ON_GPU
            self._pipe = pipe

    def _editing(self) -> tuple[Any, frozenset[str]]:
        """Return the pipeline that starts from pictures and what it takes. Called with the lock held."""
        if self._editor is None:
            self._editor = self._pipe if self._start is not None else editing_pipeline(self._pipe, engine=self.name)
            self._editor_takes = frozenset(inspect.signature(self._editor.__call__).parameters)
        return self._editor, self._editor_takes

    def _open(self, device: str) -> Any:  # noqa: ANN401 - diffusers is untyped
        preset, on_gpu = self._preset, device != "cpu"
        variant = self._options.variant or (preset.variant if preset and on_gpu else None)
        return open_pipeline(
            self.model,
            device=device,
            variant=variant,
            bfloat16=on_gpu and preset is not None and preset.bfloat16,
            from_picture=self._start is not None,
            engine=self.name,
        )


class _Stopped(Exception):  # noqa: N818 - not an error, but the only way to leave a pipeline
    """Raised to leave a pipeline when the deadline has passed or the request was cancelled."""


def _seed(seed: int, number: int) -> int:
    """Return the seed of one guide: the same in every round, and unrelated to those of its neighbours."""
    return int(fingerprint(str(seed), str(number)), 16) % 2**63
