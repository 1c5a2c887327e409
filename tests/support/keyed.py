"""A served home of eight pictures that asks for a key: what programs elsewhere meet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.home import settings_for
from tests.support.homes import index
from tests.support.pictures import write_photos
from tests.support.served import served_here

from lodestone.access.keys import ApiKey
from lodestone.config.serve import AuthSettings, ServeSettings
from lodestone.home.runtime import Runtime
from lodestone_schemas.access import KeyRequest, Scope

CAPTIONS = {"000000": "a red boat", "000001": "two dogs on a beach\nsummer"}


@dataclass(frozen=True)
class KeyedService:
    """A service that answers nobody without `key`."""

    url: str
    key: str


@contextmanager
def keyed_service(folder: Path, *scopes: Scope) -> Iterator[KeyedService]:
    """Serve the corpus `family`: the root `pictures` with 000000.jpg to 000007.jpg, two of them with captions."""
    write_photos(folder / "pictures", 8)
    for name, caption in CAPTIONS.items():
        (folder / "pictures" / f"{name}.txt").write_text(caption, encoding="utf-8")
    settings = settings_for(folder / "home")
    index(settings, folder / "pictures", corpus="family")
    with Runtime.open(settings) as runtime:
        key, written = ApiKey.new(KeyRequest(name="program", scopes=list(scopes) or [Scope.SEARCH], corpora=None))
        runtime.catalog.add_key(key)
    settings = settings.model_copy(update={"serve": ServeSettings(upkeep=False, auth=AuthSettings(keys=True))})
    with served_here(settings) as served:
        yield KeyedService(served.address.url, written)
