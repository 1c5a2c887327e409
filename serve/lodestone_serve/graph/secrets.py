"""Separation of secrets from settings that are written into a readable file; replicas find secrets in their environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, SecretStr

from lodestone.config.settings import Settings, flatten
from lodestone.errors import ConfigurationError
from lodestone_schemas.redaction import redacted

# These are in `deployments` of the file, where a change restarts no replica.
_STAGES: Final = (("serve", "graph", "ingress"), ("serve", "graph", "encoders"))
_OPTIONAL_STAGES: Final = ("fusion", "tagging")  # of these, only whether they are deployed stays
_SECRET_WORDS: Final = ("authorization", "api_key", "apikey", "password", "secret", "token")


def public_settings(settings: Settings) -> dict[str, Any]:
    """Return what differs from the defaults, nested as in `lodestone.toml`, as JSON; without secrets and stages' options.

    Raises:
        ConfigurationError: a guide engine's options hold what looks like a secret.
    """
    for name, engine in settings.generators.items():
        _refuse_secret_options(name, engine.options)
    plain = settings.model_dump(mode="json", exclude_defaults=True)
    for path in (*_STAGES, ("serve", "graph", "llm"), *(tuple(name.split(".")) for name, _ in _secrets(settings))):
        _drop(plain, path)
    for name in _OPTIONAL_STAGES:
        if getattr(settings.serve.graph, name).enabled:
            plain["serve"]["graph"][name] = {"enabled": True}
        else:
            _drop(plain, ("serve", "graph", name))
    engines = plain.get("serve", {}).get("graph", {}).get("generators")
    if engines:  # a section means that the engine is deployed; `min_replicas` 0 means that it is not called early
        awake = {name: {"min_replicas": min(1, stage.get("min_replicas", 1))} for name, stage in engines.items()}
        plain["serve"]["graph"]["generators"] = awake
    return plain


def secret_variables(settings: Settings) -> list[str]:
    """Return the environment variables that every replica needs, because the settings here hold a secret."""
    engines = [engine.key_env for engine in settings.generators.values() if engine.key_env]
    named = ["LODESTONE_" + name.replace(".", "__").upper() for name, _ in _secrets(settings)]
    return sorted({*named, *engines})


def _secrets(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, description) of settings that hold a secret."""
    for name, value in flatten(_as_mapping(settings)).items():
        values = value if isinstance(value, list | tuple) else (value,)
        if any(isinstance(item, SecretStr) for item in values):
            yield name, "secret"
        elif any(isinstance(item, str) and "://" in item and redacted(item) != item for item in values):
            yield name, "URL with a secret"


def _as_mapping(model: BaseModel) -> dict[str, Any]:
    return model.model_dump()


def _refuse_secret_options(engine: str, options: Mapping[str, Any]) -> None:
    for name, value in flatten(dict(options)).items():
        last = name.rpartition(".")[2].lower().replace("-", "_")
        if isinstance(value, str) and value and last in _SECRET_WORDS:
            setting = f"generators.{engine}.options.{name}"
            raise ConfigurationError(
                f"{setting} looks like a secret, and would be written into the file",
                hint=f"name the variable that holds it: generators.{engine}.key_env, or options.header_env",
                setting=setting,
            )


def _drop(tree: dict[str, Any], path: tuple[str, ...]) -> None:
    """Remove a leaf, and the branches that are empty without it."""
    inner = tree.get(path[0])
    if len(path) == 1:
        tree.pop(path[0], None)
    elif isinstance(inner, dict):
        _drop(inner, path[1:])
        if not inner:
            del tree[path[0]]
