"""Real photographs for tests: the ones inside the scikit-image wheel."""

from importlib.util import find_spec
from pathlib import Path

from PIL import Image

CAT, COFFEE, ROCKET, PERSON = "chelsea.png", "coffee.png", "rocket.jpg", "astronaut.png"


def photo_path(name: str) -> Path:
    """The file of one of the photographs."""
    spec = find_spec("skimage")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data" / name


def photo(name: str) -> Image.Image:
    """One of the photographs, RGB, its pixels loaded."""
    with Image.open(photo_path(name)) as opened:
        return opened.convert("RGB")
