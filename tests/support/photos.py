"""Real photographs for tests: the ones inside the scikit-image wheel."""

from importlib.resources import files

from PIL import Image

CAT, COFFEE, ROCKET, PERSON = "chelsea.png", "coffee.png", "rocket.jpg", "astronaut.png"


def photo(name: str) -> Image.Image:
    """One of the photographs, RGB, its pixels loaded."""
    with files("skimage").joinpath("data", name).open("rb") as file:
        return Image.open(file).convert("RGB")
