"""A home with two corpora that must not know of each other, a key for each, and what each has done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support.home import image_ids, settings_for
from tests.support.pictures import write_photos

from lodestone.access.keys import ApiKey
from lodestone.config.serve import AuthSettings, ServeSettings
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_schemas.access import KeyRequest, Scope

OWN, OTHER = "alpha", "zebrasecret"
"""Corpora. Whatever belongs to the second has its name somewhere in it, so that it is seen wherever it leaks."""
HOLDER = (Scope.SEARCH, Scope.FEEDBACK, Scope.INDEX)


@dataclass(frozen=True)
class Tenants:
    """The home and the keys to it, as they are written."""

    settings: Settings
    keys: dict[str, str]

    def headers(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[name]}"}


def make_tenants(folder: Path) -> Tenants:
    """Index six pictures for each corpus, one of them captioned and one unreadable, and make three keys."""
    settings = settings_for(folder)
    for corpus in (OWN, OTHER):
        pictures = folder / f"{corpus}-pictures"
        write_photos(pictures, 6)  # the same in both: copies of each other
        (pictures / "000000.txt").write_text(f"{corpus} boats in a harbour at dawn\n")
        (pictures / f"{corpus}-broken.jpg").write_bytes(b"no picture")
    with Runtime.open(settings) as runtime:
        for corpus in (OWN, OTHER):
            index_paths(runtime, IndexRequest((folder / f"{corpus}-pictures",), corpus=corpus))
        keys = {corpus: _key(runtime, corpus, HOLDER, [corpus]) for corpus in (OWN, OTHER)}
        keys["everywhere"] = _key(runtime, "everywhere", HOLDER, None)
        keys["admin"] = _key(runtime, "admin", (Scope.ADMIN,), None)
    folders = {OWN: folder / f"{OWN}-pictures"}
    serve = ServeSettings(upkeep=False, auth=AuthSettings(keys=True), index_folders=folders)
    return Tenants(settings.model_copy(update={"serve": serve}), keys)


def _key(runtime: Runtime, name: str, scopes: tuple[Scope, ...], corpora: list[str] | None) -> str:
    key, written = ApiKey.new(KeyRequest(name=name, scopes=list(scopes), corpora=corpora))
    runtime.catalog.add_key(key)
    return written


def pictures_of(settings: Settings, corpus: str) -> list[str]:
    """Ids of the indexed pictures of a corpus."""
    with Runtime.open(settings) as runtime:
        return sorted(image_ids(runtime, corpus).values())
