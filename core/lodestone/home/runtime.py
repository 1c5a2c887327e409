"""An opened home with everything in it: a `Runtime` holds settings, catalog, store, models and the query engine.

Everything is opened at first use, so that a command pays only for what it needs: the catalog without the store, the store
without models. The store's lock is taken by the first use of `store` and released by `close`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, BinaryIO, Self

from lodestone.config.home import Home, home_of
from lodestone.config.own_profiles import choose_profile
from lodestone.config.profiles import Profile
from lodestone.config.settings import Settings
from lodestone.home.learning import LearningResources
from lodestone.spaces.names import BRIDGE

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image

    from lodestone.backbones.base import Backbone
    from lodestone.config.engines import EngineSettings
    from lodestone.generators.engine_call import Engine, HubObserver
    from lodestone.generators.hub import Hub
    from lodestone.generators.registry import GeneratorContext
    from lodestone.imaging.budget import DecodingBudget
    from lodestone.imaging.decode import DecodedImage
    from lodestone.models.cache import ModelCache
    from lodestone.models.context import ModelContext
    from lodestone.query.contracts import Encoder, RemoteEncoders, RemoteStages, Tagger
    from lodestone.query.encoder import LocalEncoder
    from lodestone.query.engine import QueryEngine
    from lodestone.spaces.base import Projection
    from lodestone.store.base import VectorStore
    from lodestone.text_encoders.base import TextEncoder

LEARNT_KINDS = (BRIDGE, "prior")


class Runtime(LearningResources):
    """An opened home. Make it with `Runtime.open`, and `close` it (or use it as a context manager)."""

    def __init__(self, settings: Settings, home: Home, profile: Profile, *, purpose: str = "lodestone") -> None:
        super().__init__(settings, home, profile, purpose=purpose)
        self.observer: HubObserver | None = None  # receives events of guide engines; set before the first use of `hub`
        self.remote_stages: RemoteStages | None = (
            None  # stages in other processes; set before the first use of `engine` or `hub`
        )

    @classmethod
    def open(cls, settings: Settings, *, purpose: str = "lodestone") -> Runtime:
        """Check the home, if it exists, and the profile's name. Nothing is created or opened before it is used.

        Args:
            settings: The user's settings.
            purpose: What this process does, e.g. `lodestone index`; shown to others who find the store locked.

        Raises:
            HomeVersionError: a newer Lodestone wrote the home.
            UnknownNameError: no such profile.
        """
        profile = choose_profile(settings.profile, settings.profiles)
        home = home_of(settings)
        if home.exists():
            home.check()
        return cls(settings, home, profile, purpose=purpose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def models(self, *, fetch: bool = True) -> ModelContext:
        """Return the context for models: their cache, number of threads, and the learned artifacts in force in this home.

        Args:
            fetch: Whether models that the machine does not have are fetched when they are needed.
        """
        from lodestone.models.context import ModelContext

        active = {kind: self.catalog.active_artifact(kind) for kind in LEARNT_KINDS} if self.home.exists() else {}
        artifacts = {kind: self.home.artifacts / artifact.path for kind, artifact in active.items() if artifact}
        if BRIDGE in artifacts:
            from lodestone.home.bridge_fit import fits

            if not fits(artifacts[BRIDGE], self.profile):
                del artifacts[BRIDGE]  # learnt under another profile; the one that ships for this profile is used
        return ModelContext(
            cache=self._model_cache,
            threads=self.settings.models.threads,
            artifacts=artifacts,
            bridge=self.configured.bridge,
            fetch=fetch,
        )

    @cached_property
    def _model_cache(self) -> ModelCache:
        from lodestone.models.cache import ModelCache

        return ModelCache(self.settings.models.cache.expanduser())

    @cached_property
    def text_encoder(self) -> TextEncoder:
        """Return the profile's text encoder, not warmed up."""
        from lodestone.text_encoders.registry import make_text_encoder

        return make_text_encoder(self.configured.text_encoder, self.models())

    def text_encoders(self, projections: Mapping[str, Projection]) -> dict[str, TextEncoder]:
        """Return name -> text encoder, not warmed up: the profile's, and those of spaces with a text tower of their own."""
        from lodestone.text_encoders.registry import make_text_encoder

        encoders = {self.configured.text_encoder: self.text_encoder}
        for projection in projections.values():
            name = projection.text_encoder
            if name is not None and name not in encoders:
                encoders[name] = make_text_encoder(name, self.models())
        return encoders

    def backbones(self) -> list[Backbone]:
        """Return the profile's backbones, new and not warmed up."""
        from lodestone.backbones.registry import make_backbone

        context = self.models()
        return [make_backbone(name, context) for name in self.profile.backbones]

    def extra_backbones(self) -> list[Backbone]:
        """Return the backbones that only standby collections need; new pictures go through them too."""
        return self._backbones_of(self.standby_projections().values(), besides=self.profile.backbones)

    def _backbones_of(self, projections: Iterable[Projection], *, besides: Collection[str]) -> list[Backbone]:
        from lodestone.backbones.registry import make_backbone

        context = self.models()
        needed = dict.fromkeys(key.backbone for projection in projections for key in projection.requires)
        return [make_backbone(name, context) for name in needed if name not in besides]

    def projections(self, *, fetch: bool = True) -> dict[str, Projection]:
        """Return space name -> projection in the version that is in force now. Nothing is warmed up.

        Args:
            fetch: As in `models`.

        Raises:
            ConfigurationError: the bridge does not fit the profile's models.
        """
        from lodestone.home.bridge_fit import check_bridge
        from lodestone.spaces.registry import make_space

        context, profile = self.models(fetch=fetch), self.profile
        spaces = {
            name: make_space(name, context, direct=profile.direct, labels=profile.labels, text_encoder=profile.text_encoder)
            for name in profile.spaces
        }
        if BRIDGE in spaces:
            check_bridge(spaces[BRIDGE], profile)
        return spaces

    def standby_projections(self) -> dict[str, Projection]:
        """Return collection -> projection of what model swaps have filled beside the spaces in force. Nothing is warmed up."""
        from lodestone.home.space_standby import standby_projections

        return standby_projections(self) if self.home.exists() else {}

    def serving_projections(self) -> dict[str, Projection]:
        """Return space name -> projection of the version that is loaded and promoted, for searching.

        It is the one in force, except between the choice of another version and the end of its loading.
        """
        from lodestone.home.space_versions import promoted_versions

        return promoted_versions(self, self.projections())

    def engine(
        self, projections: Mapping[str, Projection] | None = None, *, shadow: bool = False, recording: bool = True
    ) -> QueryEngine:
        """Make a query engine, not warmed up; opens the store.

        Args:
            projections: Space name -> the version to search; None for `serving_projections`. It is searched in its own
                collection, promoted or not, as long as that exists.
            shadow: For comparing versions: there are no guides, and queries are neither recorded nor leave tags.
            recording: Whether queries are recorded and leave tags. False also leaves alone what was recorded before.
        """
        from lodestone.config.compositions import all_compositions
        from lodestone.home.indexed_pictures import IndexedPictures
        from lodestone.home.space_versions import former_versions, promoted_versions
        from lodestone.indexing.parts.registry import further_fields
        from lodestone.query.asking.searchable import IndexVersions
        from lodestone.query.engine import QueryEngine
        from lodestone.query.weighting.choice import make_weigher
        from lodestone.query.words.checker import QueryChecker
        from lodestone.sources.boundaries import boundaries_of
        from lodestone.spaces.names import captions_collection

        in_force = self.projections()
        if projections is None:
            projections = promoted_versions(self, in_force)
        former = {} if shadow else former_versions(projections, in_force, self.profile)
        compositions = {
            name: replace(composition, weights=self.chosen_weights(composition) or {})
            for name, composition in all_compositions(self.settings.compositions, self.profile).items()
        }
        edits = any(composition.target == "guide" for composition in compositions.values())
        return QueryEngine(
            store=self.store,
            catalog=self.catalog,
            encoder=self._encoder(projections, self.remote_stages),
            profile=self.profile,
            settings=self.settings.query,
            hub=None if shadow else self.hub,
            weigher=make_weigher(projections),
            learnt=self.learned_models(
                {name: one for name, one in projections.items() if name not in former}, recording=recording and not shadow
            ),
            boundaries=boundaries_of(self.settings),
            checker=QueryChecker(self.text_encoder, lambda: self.catalog),
            fuser=None if self.remote_stages is None else self.remote_stages.fuser(),
            compositions=compositions,
            pictures=IndexedPictures(self, self.decode) if edits else None,
            versions=IndexVersions(former, captions=lambda: captions_collection(self.text_encoder.version)),
            fields=dict(further_fields()),
        )

    def _encoder(self, projections: Mapping[str, Projection], remote: RemoteEncoders | None) -> Encoder:
        return self.local_encoder(projections) if remote is None else remote.encoder(projections)

    def local_encoder(self, projections: Mapping[str, Projection], *, text_threads: int | None = None) -> LocalEncoder:
        """Make an encoder with these versions' models (space -> projection), not warmed up; threads as in `LocalEncoder`."""
        from lodestone.query.encoder import LocalEncoder

        return LocalEncoder(
            projections=projections,
            text_encoders=self.text_encoders(projections),
            backbones={backbone.name: backbone for backbone in self._backbones_of(projections.values(), besides=())},
            threads=self.settings.models.threads,
            text_threads=text_threads,
        )

    def engine_names(self) -> list[str]:
        """Return the guide engines that the profile and the settings name. Opens nothing."""
        generators = (*self.configured.generators, *(self.settings.query.generators or ()))
        return list(dict.fromkeys([*generators, *self.configured.engines, *self.settings.generators]))

    @cached_property
    def hub(self) -> Hub:
        """Return the guide engines of settings and profile. The store is opened when an engine first searches it."""
        from lodestone.generators.assembly import make_hub

        return make_hub(
            self.settings.model_copy(update={"generators": self.guide_engine_settings()}),
            self.configured.generators,
            lambda: self.catalog.engine_states() if self.home.exists() else {},
            self.generator_context(),
            self.home.guides,
            observer=self.observer,
            remote_stages=self.remote_stages,
        )

    def guide_engine(self, name: str) -> Engine:
        """Make one guide engine of settings or profile, in this process, not warmed up. Does not create a missing home.

        Raises:
            UnknownNameError: no such engine.
            ConfigurationError: its settings cannot be used.
        """
        from lodestone.config.engines import EngineSettings
        from lodestone.errors import UnknownNameError
        from lodestone.generators.assembly import make_engine

        if name not in self.engine_names():
            raise UnknownNameError.among("generator", name, self.engine_names())
        return make_engine(name, self.guide_engine_settings().get(name) or EngineSettings(kind=name), self.generator_context())

    def guide_engine_settings(self) -> dict[str, EngineSettings]:
        """Return engine -> its settings, of profile and home; engines that are named without settings are not among them."""
        size = {"size": self.configured.image_size}
        return {
            name: engine if "size" in engine.model_fields_set else engine.model_copy(update=size)
            for name, engine in {**self.configured.engines, **self.settings.generators}.items()
        }

    def generator_context(self) -> GeneratorContext:
        """Return what guide engines are made with. The store is opened when an engine first searches it."""
        from lodestone.generators.registry import GeneratorContext
        from lodestone.home.resources import deferred
        from lodestone.tags.search import TagSearch

        store: VectorStore = deferred(lambda: self.store)
        return GeneratorContext(
            store=store,
            catalog=deferred(lambda: self.catalog),  # describing the engines must not create a home
            models=self.models(),
            text_encoder=self.configured.text_encoder,
            tags=TagSearch(store),
        )

    async def close_hub(self) -> None:
        """Release the connections of guide engines, if there are any."""
        hub = self.__dict__.get("hub")
        if hub is not None:
            await hub.close()

    def forget_hub(self) -> Hub | None:
        """Drop the guide engines, so that the next query engine makes new ones; return the old ones, to be closed."""
        former: Hub | None = self.__dict__.pop("hub", None)
        return former

    def tagger(self, encoder: Encoder, projections: Mapping[str, Projection] | None = None) -> Tagger:
        """Make what tags single pictures, in another process where `remote_stages` says so. Nothing is loaded.

        Args:
            encoder: Embeds pictures into the versions of `projections`.
            projections: Space -> version; None for `serving_projections`.
        """
        from lodestone.imaging.quality import SIDE_PX
        from lodestone.tagging.safety import installed_scorer
        from lodestone.tagging.tagger import LocalTagger

        local = LocalTagger(
            encoder,
            self.serving_projections() if projections is None else projections,
            decode=partial(self.decode, min_side=SIDE_PX),
            safety=installed_scorer(threads=self.settings.models.threads),
        )
        return local if self.remote_stages is None else self.remote_stages.tagger(local)

    def decode(self, data: bytes | Path | BinaryIO, *, min_side: int = 0, until: float | None = None) -> Image.Image:
        """Return the pixels alone of what `decode_with_facts` decodes; arguments and errors are the same."""
        return self.decode_with_facts(data, min_side=min_side, until=until).image

    def decode_with_facts(
        self, data: bytes | Path | BinaryIO, *, min_side: int = 0, until: float | None = None
    ) -> DecodedImage:
        """Decode a picture's bytes or file to an upright RGB picture, within the same limits as when indexing.

        All pictures that this process decodes here at once take as much memory together as one picture may when indexing, and
        large ones are reduced as soon as they are decoded.

        Args:
            data: The file, or its content.
            min_side: Pixels that the shorter side may not be reduced below; at least what the models need.
            until: When waiting for memory that others have taken ends, on the clock of `time.monotonic()`; None for a while.

        Raises:
            ImageError: not a usable picture.
            OverloadedError: other pictures had taken the memory until then, or too many wait for it.
        """
        from lodestone.imaging.decode import Sharing, decode

        smallest = max(min_side, *(backbone.input_size for backbone in self.backbones()))
        limit = self.settings.index.max_decoded_mb << 20
        return decode(data, min_side=smallest, max_decoded_bytes=limit, sharing=Sharing(self._decoding_budget, until))

    @cached_property
    def _decoding_budget(self) -> DecodingBudget:
        from lodestone.imaging.budget import DecodingBudget

        return DecodingBudget(self.settings.index.max_decoded_mb << 20)

    def close(self) -> None:
        """Flush and release everything that was opened. Idempotent."""
        self.forget_hub()  # it holds the store and the catalog
        super().close()
