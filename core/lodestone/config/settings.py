"""All settings of Lodestone, loaded from flags, environment and file, with the source of each value.

Later sources win: defaults, then `lodestone.toml`, then the environment (`LODESTONE_…`, nested with `__`), then flags. The TOML
file is the one named by `LODESTONE_CONFIG`, or else `lodestone.toml` in the home. `load_settings` also records where each value
came from.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import platformdirs
from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from lodestone.config.cluster import ClusterSettings
from lodestone.config.compositions import CompositionSettings
from lodestone.config.engines import EngineSettings, GuideCacheSettings
from lodestone.config.own_profiles import ProfileSettings
from lodestone.config.section import SafeRepresentation, SettingsSection, refusal_of
from lodestone.config.serve import ServeSettings as ServeSettings  # noqa: PLC0414 - a section as the others
from lodestone.config.store import StoreSettings as StoreSettings  # noqa: PLC0414 - a section as the others
from lodestone.errors import ConfigurationError

_log = logging.getLogger(__name__)
CONFIG_NAME = "lodestone.toml"
ENVIRONMENT_PREFIX = "LODESTONE_"
_ALIKE = 0.75  # similarity from which a name may be meant by another; see difflib
_LISTED = "`lodestone config show` lists every setting; see docs/configuration.md"


class ModelSettings(SettingsSection):
    """Settings that apply to all models and to their shared cache."""

    cache: Path = Field(
        default_factory=lambda: platformdirs.user_cache_path("lodestone", appauthor=False) / "models",
        description="Converted models, shared between homes.",
    )
    threads: int = Field(0, ge=0, le=256, description="Threads of one model pass; 0 lets the runtime choose.")


class IndexSettings(SettingsSection):
    """Settings that apply to index runs."""

    former_names = MappingProxyType({"wave_slices": "batch_slices", "wave_s": "batch_s"})

    slice_size: int = Field(
        0,
        ge=0,
        le=8192,
        description="Pictures a slice; 0: 256, the first ones fewer, and up to 2,048 in runs over many pictures in a bucket.",
    )
    batch_size: int = Field(0, ge=0, le=1024, description="Pictures a model pass; 0 for 4, or 256 on a GPU.")
    slices_in_flight: int = Field(0, ge=0, le=256, description="Slices a worker has in flight; 0 for 2, or 16 on a GPU.")
    reads: int = Field(0, ge=0, le=1024, description="Requests for pictures a worker has under way; 0: 128, on a GPU 256.")
    decode_processes: bool | None = Field(
        None,
        description="Decode in child processes of a worker; default: where it decodes over two pictures at once for a GPU.",
    )
    gpu_decode: bool = Field(False, description="Decode ordinary JPEGs on the GPU of each worker (nvJPEG, by torchvision).")
    compile_models: bool = Field(False, description="Compile image models of torch (open_clip, timm) in each worker.")
    workers: int = Field(0, ge=0, le=1024, description="Embedding workers; 0 for one a core.")
    executor: Literal["auto", "inline", "processes", "ray"] = Field(
        "auto", description="auto: processes from two slices on; with a cluster, Ray."
    )
    attempts: int = Field(4, ge=1, le=100, description="Tries of a slice in one run.")
    backoff_s: float = Field(1.0, ge=0, le=600, description="Seconds before a slice is tried again; doubled each time.")
    batch_slices: int = Field(400, ge=1, le=100_000, description="Most slices in one batch of slices.")
    batch_s: float = Field(
        300.0,
        gt=0,
        description="Most seconds of a batch of slices, after which its pictures can be found; the first takes 3, each next "
        "twice that.",
    )
    background_nice: int = Field(
        10, ge=0, le=19, description="Niceness of the process that indexes beside a service: 0 yields to nobody, 19 to all."
    )
    loaders: int = Field(
        0, ge=0, le=256, description="Groups of slices loaded at once; 0 for 2, on a cluster 2 a node of the vector store."
    )
    embeddings: str | None = Field(None, description="Folder or URL of the Parquet slices; default: in the home.")
    thumbnails: str | None = Field(None, description="Folder or URL of the thumbnails; default: in the home.")
    thumbnail_px: int = Field(320, ge=16, le=4096, description="Longer side of thumbnails, pixels.")
    max_decoded_mb: int = Field(512, ge=1, description="A picture that needs more memory once decoded becomes a failure row.")
    follow_symlinks: bool = True
    exclude: list[str] = Field(
        default_factory=list, description="Patterns of files and folders to leave out, as in a .gitignore, for every directory."
    )
    system_folders: bool = Field(
        False, description="Also index recycle bins, snapshots, and previews that other programs keep."
    )
    keep_gone_days: float = Field(
        30.0,
        ge=0,
        le=36_500,
        description="Days that a picture whose file is gone is kept, unseen, in case the file comes back; then it is removed.",
    )

    @model_validator(mode="after")
    def _decoded_in_one_place(self) -> Self:
        if self.gpu_decode and self.decode_processes:
            raise ValueError("gpu_decode and decode_processes exclude each other: child processes use no GPU")
        return self


class QuerySettings(SettingsSection):
    """Settings that searches use by default."""

    fusion: str | None = Field(None, description="Fusion method; default: the profile's.")
    generators: list[str] | None = Field(None, description="Guide generators; default: the profile's.")
    guides: int | None = Field(None, ge=0, le=64, description="Guides a query; default: the profile's.")
    depth: int | None = Field(None, ge=1, le=1000, description="Candidates from each list; default: the profile's.")
    deadline_ms: int = Field(10_000, ge=1, le=600_000, description="Time allowed for a complete answer.")
    gate: bool | None = Field(None, description="Simple queries stop after the text pass; default: the profile's.")
    gate_threshold: float | None = Field(
        None, ge=0, le=1, description="Simple from this predicted AP on; default: the fitted one."
    )
    merge_above: int = Field(
        10_000_000,
        ge=0,
        description="Points of a space from which its guides are merged: two searches instead of one a guide.",
    )
    outliers: bool = Field(True, description="Leave out guides that are unlike the others.")
    outlier_threshold: float | None = Field(
        None, gt=0, description="Distance, in typical ones of the collection, from which a guide is rejected; default: .9."
    )
    adaptive: bool | None = Field(None, description="Draw guides until the first results are stable; default: the profile's.")
    budget: float | None = Field(None, ge=0, description="Most that paid generators may cost a query; default: no limit.")
    spelling: Literal["auto", "off"] = Field("auto", description="Correct misspelt words before searching; the answer says so.")
    phrases: Literal["auto", "off"] = Field("auto", description="Understand English phrases of change beside a picture.")
    history: int = Field(1_000, ge=0, le=1_000_000, description="Queries kept for explain, replay and feedback; 0 keeps none.")


class TagSettings(SettingsSection):
    """Settings that apply to the tags which queries leave on the pictures they found."""

    implicit: bool = Field(True, description="Tag confident results of complete searches with the query.")
    threshold: float | None = Field(None, ge=0, description="Least confidence; default: the fitted one.")
    most: int = Field(5, ge=1, le=100, description="Pictures that one query tags at most.")


class TrustSettings(SettingsSection):
    """Settings that say how feedback changes the trust in spaces."""

    eta: float = Field(0.2, gt=0, le=1, description="Learning rate of one feedback.")
    topics: int = Field(32, ge=1, le=1_000, description="Topics at most.")
    floor: float = Field(0.1, gt=0, lt=1, description="Least trust in a space, 1 being neutral.")


class Settings(SafeRepresentation, BaseSettings):
    """All settings that one home has."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,  # an empty LODESTONE_HOME would mean the current folder
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    home: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("lodestone", appauthor=False),
        description="Everything of one collection: catalog, embeddings, vectors, thumbnails, logs.",
    )
    profile: str = Field("embedded", description="Named set of backbones, spaces and generators.")
    catalog_url: str | None = Field(None, description="SQLAlchemy URL; default: SQLite in the home.")
    catalog_connections: int = Field(15, ge=2, le=1_000, description="Of one process to PostgreSQL, at most.")
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    pictures: Literal["auto", "kitty", "sixel", "iterm2", "blocks", "none"] = Field(
        "auto", description="How commands show pictures in a terminal; auto: as it can."
    )
    models: ModelSettings = Field(default_factory=ModelSettings)
    index: IndexSettings = Field(default_factory=IndexSettings)
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    query: QuerySettings = Field(default_factory=QuerySettings)
    serve: ServeSettings = Field(default_factory=ServeSettings)
    tags: TagSettings = Field(default_factory=TagSettings)
    trust: TrustSettings = Field(default_factory=TrustSettings)
    guide_cache: GuideCacheSettings = Field(default_factory=GuideCacheSettings)
    generators: dict[str, EngineSettings] = Field(default_factory=dict, description="Guide engines by name.")
    profiles: dict[str, ProfileSettings] = Field(default_factory=dict, description="Profiles of one's own by name.")
    compositions: dict[str, CompositionSettings] = Field(
        default_factory=dict, description="Composed queries' modalities, by name."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (fixed by pydantic-settings)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in order of precedence: flags, then the environment, then the TOML file."""
        return init_settings, env_settings, _FileSource(settings_cls)


class _FileAlone(Settings):
    """Settings of a file, whatever the environment says."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  (fixed by pydantic-settings, as are those below)
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the values that are given, alone."""
        return (init_settings,)


class _FileSource(PydanticBaseSettingsSource):
    """Settings source that reads `lodestone.toml`."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ANN401, ARG002
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        home = self.current_state.get("home")
        return _read_file(config_path(Path(home) if home else None))


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings with the source of each dotted name (`default`, a file's path, a variable's name, `flag`)."""

    settings: Settings
    sources: Mapping[str, str]


def config_path(home: Path | None) -> Path:
    """Return the path of the TOML file: `LODESTONE_CONFIG`, or else the file in `home` (or in the default home)."""
    if named := os.environ.get("LODESTONE_CONFIG"):
        return Path(named).expanduser()
    return (home or platformdirs.user_data_path("lodestone", appauthor=False)).expanduser() / CONFIG_NAME


def load_settings(flags: Mapping[str, Any] | None = None) -> LoadedSettings:
    """Read and validate the settings from every source.

    Args:
        flags: Values from the command line, nested as in the file; None values are left out.

    Raises:
        ConfigurationError: A file cannot be read, or a value is not allowed; the message names the setting and its source.
    """
    flag_values = _without_none(flags or {})
    _require_known_sections()
    if "home" in flag_values:
        flag_values["home"] = Path(flag_values["home"])
    try:
        settings = Settings(**flag_values)
    except ValidationError as error:
        raise _refused(error) from None  # it holds values
    except SettingsError as error:
        # It names the section; what it comes from holds the whole text of the variable.
        raise ConfigurationError(
            f"a {ENVIRONMENT_PREFIX}… variable is wrong: {error}", hint="a whole section is given as JSON; " + _LISTED
        ) from None
    settings = settings.model_copy(update={"home": settings.home.expanduser().absolute()})
    sources = _sources_of(settings, flag_values)
    for former, name in _FORMER.items():
        if sources[name].endswith(_as_former(former)):
            _log.warning("the setting %s is named %s now: %s", former, name, sources[name].removesuffix(_as_former(former)))
    return LoadedSettings(settings, sources)


def checked_file(content: Mapping[str, Any]) -> Settings:
    """Return the settings that a file alone would give.

    Raises:
        ConfigurationError: A name is unknown, or a value is not allowed; the message names it.
    """
    try:
        return _FileAlone(**content)
    except ValidationError as error:
        raise _refused(error) from None  # it holds values


def _refused(error: ValidationError) -> ConfigurationError:
    """Return the error that names the first setting that was refused, and why; of an unknown one, names that are like it."""
    name, reason = refusal_of(error)
    if error.errors(include_url=False, include_context=False, include_input=False)[0]["type"] == "extra_forbidden":
        alike = get_close_matches(name, _names_of(Settings), n=1, cutoff=_ALIKE)
        reason = "there is no setting or section of this name" + "".join(f"; did you mean {meant!r}?" for meant in alike)
    return ConfigurationError(f"setting {name!r} is wrong: {reason}", hint=_LISTED, setting=name)


def _names_of(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Return the dotted names of all sections and settings of a model."""
    names = []
    for name, field in model.model_fields.items():
        names.append(f"{prefix}{name}")
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            names += _names_of(field.annotation, f"{prefix}{name}.")
    return names


def _require_known_sections() -> None:
    """Refuse environment variables that name no section.

    A misspelt variable would be ignored: `LODESTONE_CATALOG__URL` would leave every machine with its own SQLite file.
    """
    for variable in os.environ:
        section, nested, _ = variable.upper().removeprefix("LODESTONE_").partition("__")
        if variable.upper().startswith("LODESTONE_") and nested and section.lower() not in Settings.model_fields:
            raise ConfigurationError(
                f"the variable {variable!r} names no setting: there is no section {section.lower()!r}",
                hint=_LISTED,
                setting=variable,
            )


# Former dotted name of a setting -> its name.
_FORMER: Final = {
    f"{section}.{former}": f"{section}.{name}"
    for section, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, SettingsSection)
    for former, name in field.annotation.former_names.items()
}


def _as_former(former: str) -> str:
    """Return the end of a source that gives a setting under its former name."""
    return f" (as {former})"


def _sources_of(settings: Settings, flags: Mapping[str, Any]) -> dict[str, str]:
    """Return dotted name -> where the setting's value comes from."""
    path = config_path(settings.home)
    from_flags, from_file = set(flatten(flags)), set(flatten(_read_file(path)))
    # `env.keys()` is case-sensitive on POSIX while pydantic-settings is not.
    variables = {name.lower(): name for name, value in os.environ.items() if value}
    sources = {}
    for former, name in _FORMER.items():
        variable = variables.get(_variable_of(former))
        if former in from_file or variable:
            sources[name] = f"{variable or path}{_as_former(former)}"
    for name in flatten(settings.model_dump()):
        variable = variables.get(_variable_of(name))
        section = variables.get("lodestone_" + name.split(".", maxsplit=1)[0]) if "." in name else None
        if name in from_flags:
            sources[name] = "flag"
        elif variable or section:
            sources[name] = str(variable or section)
        elif name in from_file:
            sources[name] = str(path)
        else:
            sources.setdefault(name, "default")
    return sources


def _variable_of(name: str) -> str:
    """Return the name of a setting's variable, in small letters."""
    return ENVIRONMENT_PREFIX.lower() + name.replace(".", "__")


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn a nested mapping into one that maps dotted names to leaves."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            leaves |= flatten(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def _read_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        if os.environ.get("LODESTONE_CONFIG"):
            raise ConfigurationError(
                f"no settings file at {str(path)!r}", hint="LODESTONE_CONFIG names a file that is not there"
            )
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"cannot read {str(path)!r}: {error}", hint="it must be UTF-8 TOML") from error


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in tree.items():
        inner = _without_none(value) if isinstance(value, Mapping) else value
        if inner is not None and inner != {}:
            kept[key] = inner
    return kept
