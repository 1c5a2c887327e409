"""Deployments of a service, with all their limits, resources and scaling options in one place.

`deployment_options` is the only definition: the application is built with it, and serveConfigV2 repeats it, so that options can
be changed in a cluster without restarting a replica.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from lodestone.config.own_profiles import choose_profile
from lodestone.config.profiles import Profile
from lodestone.config.serve import OptionalStageSettings, StageSettings
from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError
from lodestone_serve.graph.llm import check_llm
from lodestone_serve.graph.policy import ENCODERS_POLICY, POLICY

APP: Final = "App"
INGRESS: Final = "Ingress"
ENCODERS: Final = "Encoders"
FUSION: Final = "Fusion"
TAGGING: Final = "Tagging"
APPLICATION: Final = "lodestone"
OPTIONAL: Final[Mapping[str, str]] = {"fusion": FUSION, "tagging": TAGGING}
"""Setting below `serve.graph` -> its deployment, for stages that run in the ingress by default."""
# Engines that look something up in the collection or draw from a small file: a hop costs more than they do.
AT_HOME: Final = frozenset({"exemplar", "prior"})
# Engines that wait for another service: a tenth of a CPU serves many calls.
_WAITING: Final = frozenset({"openai", "imagen", "replicate", "http"})
# Requests for health, metrics and pictures, which are allowed beside the queries; admission.py limits the queries.
_BESIDE_QUERIES: Final = 128
DRAIN_SLACK_S: Final = 10.0
"""Seconds for which a stopping service waits for its requests beyond what a query may take."""

_LOOK_BACK_S: Final = (11.0, 30.0)  # Ray requires more than 10, its own interval of reports


def generator_deployment(engine: str) -> str:
    """Return the name of a guide engine's deployment."""
    return f"Generator-{engine}"


def remote_engines(settings: Settings) -> tuple[str, ...]:
    """Return the guide engines that are deployments of their own: none in the shape `app`."""
    graph = settings.serve.graph
    if graph.shape == "app":
        return ()
    profile = choose_profile(settings.profile, settings.profiles)
    return tuple(
        name for name, kind in _engine_kinds(settings, profile).items() if kind not in AT_HOME or name in graph.generators
    )


def check_graph(settings: Settings) -> None:
    """Refuse a graph that cannot work, before anything is started.

    Raises:
        ConfigurationError: names the setting.
    """
    graph = settings.serve.graph
    _check_stages(settings)
    if graph.llm is not None:
        check_llm(graph.llm)
    profile = choose_profile(settings.profile, settings.profiles)
    kinds = _engine_kinds(settings, profile)
    if unknown := sorted(graph.generators.keys() - kinds.keys()):
        raise _wrong(
            f"generators.{unknown[0]}", "names no engine", f"engines of this home: {', '.join(sorted(kinds)) or 'none'}"
        )
    several = graph.ingress.max_replicas > 1
    if several and graph.shape == "app":
        raise _wrong("ingress.max_replicas", "is more than 1", "the shape app is one process: set serve.graph.shape = graph")
    if several and settings.store.kind == "edge":
        raise _wrong("ingress.max_replicas", "is more than 1", "an embedded store has one owner: set store.kind = server")
    if several and not is_shared_catalog(settings):
        raise _wrong("ingress.max_replicas", "is more than 1", "SQLite belongs to one machine: set catalog_url to PostgreSQL")
    if graph.shape == "graph" and settings.store.kind == "edge":
        owned = [name for name in graph.generators if kinds[name] == "exemplar"]
        if owned:
            raise _wrong(f"generators.{owned[0]}", "reads the embedded store", "leave the section out: it runs in the ingress")


def is_shared_catalog(settings: Settings) -> bool:
    """Return whether several machines may use the catalog."""
    return settings.catalog_url is not None and not settings.catalog_url.startswith("sqlite")


def as_served(settings: Settings) -> Settings:
    """Return the settings of replicas.

    If the ingress may have several, none of them watches directories or repairs what they share.
    """
    if settings.serve.graph.ingress.max_replicas == 1 or not settings.serve.upkeep:
        return settings
    return settings.model_copy(update={"serve": settings.serve.model_copy(update={"upkeep": False})})


def deployment_options(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return deployment -> its options, under the names of Ray's schema and decorator alike; JSON.

    Raises:
        ConfigurationError: see `check_graph`.
    """
    check_graph(settings)
    if settings.serve.graph.shape == "app":
        return {APP: {**_ingress(settings, StageSettings()), "num_replicas": 1}}
    graph = settings.serve.graph
    callers = graph.ingress.max_replicas
    options = {
        INGRESS: _ingress(settings, graph.ingress) | _replicas(graph.ingress, policy={"policy_function": POLICY}),
        ENCODERS: _encoders(settings, graph.encoders, callers=callers),
    }
    for name, deployment in OPTIONAL.items():
        stage = _optional(settings)[name]
        if stage.enabled:
            options[deployment] = _stage(settings, stage, callers=callers)
    profile = choose_profile(settings.profile, settings.profiles)
    kinds = _engine_kinds(settings, profile)
    for name in remote_engines(settings):
        options[generator_deployment(name)] = _stage(settings, _of_engine(settings, name, kinds[name]), callers=callers)
    return options


def most_resources(options: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return resource -> the most that the replicas of all deployments need; `options` come from `deployment_options`."""
    needed: dict[str, float] = {}
    for deployment in options.values():
        actor = deployment["ray_actor_options"]
        most = deployment.get("num_replicas") or deployment["autoscaling_config"]["max_replicas"]
        if deployment.get("max_surge_percent"):
            most *= 2  # an update starts new replicas beside the old ones
        of_one = {"CPU": actor.get("num_cpus", 1), "GPU": actor.get("num_gpus", 0), **actor.get("resources", {})}
        for name, amount in of_one.items():
            needed[name] = needed.get(name, 0.0) + most * amount
    return {name: amount for name, amount in needed.items() if amount}


def _of_engine(settings: Settings, name: str, kind: str) -> StageSettings:
    """Return a guide engine's section, or a default for engines of its kind."""
    return settings.serve.graph.generators.get(name) or StageSettings(cpus=0.1 if kind in _WAITING else 1.0)


def _ingress(settings: Settings, stage: StageSettings) -> dict[str, Any]:
    limits = settings.serve
    # An embedded store, or SQLite, has one owner: the next replica starts when the former one has stopped.
    surge = 100 if settings.store.kind != "edge" and is_shared_catalog(settings) and limits.graph.shape == "graph" else 0
    return {
        **_common(settings, stage),
        "max_ongoing_requests": limits.max_ongoing + limits.max_queued + _BESIDE_QUERIES,
        "max_surge_percent": surge,
    }


def _optional(settings: Settings) -> dict[str, OptionalStageSettings]:
    """Return the stages that run in the ingress unless the settings make them deployments: setting -> section."""
    return {name: getattr(settings.serve.graph, name) for name in OPTIONAL}


def _encoders(settings: Settings, stage: StageSettings, *, callers: int) -> dict[str, Any]:
    numbers = {"target": stage.target_occupancy, "max_ongoing": stage.max_ongoing}
    policy = {"policy_function": ENCODERS_POLICY, "policy_kwargs": numbers}
    return {
        **_stage(settings, stage, callers=callers),
        **_replicas(stage, policy=policy),
        "user_config": {"batch": stage.batch},
    }


def _stage(settings: Settings, stage: StageSettings, *, callers: int) -> dict[str, Any]:
    return {
        **_common(settings, stage),
        **_replicas(stage),
        "max_ongoing_requests": stage.max_ongoing,
        # Serve counts for each caller separately, and accepts no 0.
        "max_queued_requests": max(1, math.ceil(stage.max_queued / callers)),
        "max_surge_percent": 100,
    }


def _common(settings: Settings, stage: StageSettings) -> dict[str, Any]:
    actor: dict[str, Any] = {"num_cpus": stage.cpus}
    if stage.gpus:
        actor["num_gpus"] = stage.gpus
    if stage.resources:
        actor["resources"] = dict(stage.resources)
    spread = {} if stage.max_per_node is None else {"max_replicas_per_node": stage.max_per_node}
    return {
        "ray_actor_options": actor,
        **spread,
        "health_check_period_s": 5.0,
        "health_check_timeout_s": 30.0,
        # A replica that is stopped gets no new work and finishes its queries, which takes at most a query's time.
        "graceful_shutdown_wait_loop_s": 0.2,
        "graceful_shutdown_timeout_s": settings.query.deadline_ms / 1000 + settings.serve.streams.grace_s + DRAIN_SLACK_S,
    }


def _replicas(stage: StageSettings, *, policy: Mapping[str, Any] | None = None) -> dict[str, Any]:
    if stage.min_replicas == stage.max_replicas:
        return {"num_replicas": stage.min_replicas}
    least, most = _LOOK_BACK_S
    scaling: dict[str, Any] = {
        "min_replicas": stage.min_replicas,
        "max_replicas": stage.max_replicas,
        "target_ongoing_requests": stage.target_ongoing,
        "upscale_delay_s": stage.upscale_delay_s,
        "downscale_delay_s": stage.downscale_delay_s,
        "look_back_period_s": min(max(stage.upscale_delay_s, least), most),
    }
    if policy is not None:
        scaling["policy"] = dict(policy)
    return {"autoscaling_config": scaling}


def _engine_kinds(settings: Settings, profile: Profile) -> Mapping[str, str]:
    """Return guide engine -> its kind, for those of the settings and of the profile."""
    names = [*profile.generators, *(settings.query.generators or ()), *profile.engines, *settings.generators]
    sections = {**profile.engines, **settings.generators}
    return {name: sections[name].kind if name in sections else name for name in dict.fromkeys(names)}


def _check_stages(settings: Settings) -> None:
    graph = settings.serve.graph
    enabled = {name: stage for name, stage in _optional(settings).items() if stage.enabled}
    for name, stage in {"ingress": graph.ingress, "encoders": graph.encoders, **enabled}.items():
        _check_stage(f"serve.graph.{name}", stage)
        if stage.min_replicas < 1:
            raise _wrong(f"{name}.min_replicas", "is 0", "somebody must answer: 1 or more; generators alone may be let go")
    for name, stage in graph.generators.items():
        _check_stage(f"serve.graph.generators.{name}", stage)
    if enabled and graph.shape == "app":
        setting = f"{next(iter(enabled))}.enabled"
        raise _wrong(setting, "is true", "the shape app is one process: set serve.graph.shape = graph")


def _check_stage(where: str, stage: StageSettings) -> None:
    if stage.max_replicas < stage.min_replicas:
        problem = f"is {stage.max_replicas}, less than min_replicas ({stage.min_replicas})"
        raise _wrong(f"{where}.max_replicas", problem, "raise it, or lower min_replicas")
    if stage.gpus > 1 and stage.gpus != int(stage.gpus):
        raise _wrong(f"{where}.gpus", f"is {stage.gpus:g}", "a share below 1, or whole GPUs")


def _wrong(setting: str, problem: str, hint: str) -> ConfigurationError:
    setting = setting if setting.startswith("serve.") else f"serve.graph.{setting}"
    return ConfigurationError(f"{setting} {problem}", hint=hint, setting=setting)
