"""Tests of the client's own distribution: it needs httpx and pydantic, and nothing else of what the product installs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.support.home import settings_for
from tests.support.homes import index
from tests.support.pictures import write_photos
from tests.support.served import TOKEN, Served, served_here

ROOT = Path(__file__).parents[2]
_SEARCH = """
import sys
sys.path[:0] = {paths!r}
from lodestone_client import Lodestone
from lodestone_schemas.api import SearchRequest
with Lodestone({url!r}, api_key="", headers={{"X-Lodestone-Token": {token!r}}}) as lodestone:
    request = SearchRequest(query="coloured dots", limit=3)
    events = [event.type for event in lodestone.stream(request)]
    hits = lodestone.search(request).hits
ours = sorted({{name.partition(".")[0] for name in sys.modules if name.startswith("lodestone")}})
foreign = sorted(name for name in ("torch", "ray", "numpy", "tenacity", "httpx_sse", "pyarrow") if name in sys.modules)
print(len(hits), events[0], events[-1], ours, foreign)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "client", folder / "client", ignore=ignored)  # alone: its folder is all that a build needs
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    subprocess.run([*command, folder / "client"], check=True, timeout=240)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    write_photos(folder / "pictures", 4)
    settings = settings_for(folder / "home")
    index(settings, folder / "pictures")
    with served_here(settings) as served:
        yield served


def requirements(name: str, seen: set[str]) -> set[str]:
    """Names of the distributions that `name` needs, itself included; extras are left out."""
    if name in seen:
        return seen
    seen.add(name)
    for line in distribution(name).requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            requirements(requirement.name, seen)
    return seen


def test_the_wheel_needs_httpx_and_pydantic_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        lines = archive.read(metadata).decode().splitlines()
        tops = {name.partition("/")[0] for name in archive.namelist()}

    needed = sorted(
        re.split(r"\W", line.removeprefix("Requires-Dist: "), maxsplit=1)[0]
        for line in lines
        if line.startswith("Requires-Dist") and "extra ==" not in line
    )
    assert needed == ["httpx", "pydantic"]
    assert sorted(line.partition(": ")[2] for line in lines if line.startswith("Provides-Extra")) == ["haystack", "langchain"]
    assert {name for name in tops if not name.endswith(".dist-info")} == {"lodestone_client", "lodestone_schemas"}
    assert wheel.stat().st_size < 200_000


def test_a_program_that_has_nothing_else_searches_and_streams(wheel: Path, served: Served, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "client")
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in requirements("httpx", set()) | requirements("pydantic", set()):
        for file in distribution(name).files or []:
            top = file.parts[0]
            target = Path(str(distribution(name).locate_file(top)))
            if top != ".." and target.exists() and not (packages / top).exists():
                (packages / top).symlink_to(target)
    paths = [str(tmp_path / "client"), str(packages)]
    script = _SEARCH.format(paths=paths, url=served.address.url, token=TOKEN)
    found = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, timeout=240, check=False)

    assert found.stdout.split(maxsplit=3)[:3] == ["3", "plan", "done"], found.stderr
    assert found.stdout.rstrip().endswith("['lodestone_client', 'lodestone_schemas'] []")


def test_the_product_offers_the_client_under_its_own_name() -> None:
    import lodestone
    import lodestone_client

    assert lodestone.Lodestone is lodestone_client.Lodestone
    assert lodestone.AsyncLodestone is lodestone_client.AsyncLodestone
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = lodestone.Nothing


def test_both_distributions_have_the_version_of_the_code() -> None:
    import lodestone

    assert distribution("lodestone-search").version == distribution("lodestone-search-client").version == lodestone.__version__
