"""A home of its own for a test: small slices, shared models, everything else under the test's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.models import model_context
from tests.support.patience import DEADLINE_MS

from lodestone.config.settings import IndexSettings, ModelSettings, QuerySettings, ServeSettings, Settings, StoreSettings
from lodestone.home.runtime import Runtime


def settings_for(
    folder: Path, *, executor: str = "inline", slice_size: int = 8, workers: int = 1, upkeep: bool = False, **index: Any
) -> Settings:
    """Settings of a home in `folder`, with models from the cache that tests share; a service leaves it as it is."""
    return Settings(
        home=folder / "home",
        models=ModelSettings(cache=model_context().cache.root, threads=1),
        index=IndexSettings(executor=executor, slice_size=slice_size, workers=workers, **{"background_nice": 0, **index}),  # type: ignore[arg-type]
        store=StoreSettings(lock_timeout_s=0.2),
        query=QuerySettings(deadline_ms=DEADLINE_MS),
        serve=ServeSettings(upkeep=upkeep),
    )


def open_runtime(folder: Path, **options: Any) -> Runtime:
    """A runtime on `settings_for`; close it, or use it as a context manager."""
    return Runtime.open(settings_for(folder, **options), purpose="a test")


def image_ids(runtime: Runtime, corpus: str = "default") -> dict[str, str]:
    """Root's name/uri -> image id of all pictures of a corpus that are not gone."""
    found = runtime.catalog.corpus(corpus)
    return {
        f"{root.name}/{image.uri}": image.image_id
        for root in runtime.catalog.roots(found.corpus_id)
        for image in runtime.catalog.images_of_root(root.root_id)
        if image.state != "gone"
    }


def vectors_of(runtime: Runtime, alias: str) -> dict[str, Any]:
    """Point id -> vector of the collection behind an alias."""
    collection = runtime.store.aliases()[alias]
    return {
        point: vector
        for batch in runtime.store.scroll(collection)
        for point, vector in zip(batch.ids, batch.vectors, strict=True)
    }
