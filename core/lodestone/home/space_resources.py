"""The resources of a home from which its spaces are made, as a protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.config.home import Home
    from lodestone.config.profiles import Profile
    from lodestone.models.context import ModelContext
    from lodestone.spaces.base import Projection


class SpaceResources(Protocol):
    """Profile, catalog and models of one home; a `Runtime` provides all of them."""

    configured: Profile

    @property
    def home(self) -> Home:
        """Return the home's folders."""

    @property
    def catalog(self) -> Catalog:
        """Return the home's opened catalog."""

    @property
    def profile(self) -> Profile:
        """Return the configured profile with the overrides of this home applied."""

    def models(self) -> ModelContext:
        """Return the context in which models load: cache, threads and active artifacts."""

    def promoted(self) -> dict[str, str]:
        """Return alias -> collection that is searched."""

    def projections(self) -> dict[str, Projection]:
        """Return space name -> projection in the active version, not warmed up."""
