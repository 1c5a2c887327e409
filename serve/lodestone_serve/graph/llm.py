"""Language model beside the graph, served by `ray.serve.llm` (vLLM) as a separate application without a route.

It is not reachable over HTTP, because it asks for no key. Deployments of the graph find it by its application's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from lodestone.config.section import SettingsSection, refusal_of
from lodestone.config.serve import LanguageModelSettings
from lodestone.errors import ConfigurationError
from lodestone.models.packages import import_library

if TYPE_CHECKING:
    from ray.serve import Application

LLM_APPLICATION: Final = "llm"
MODEL_ID: Final = "lodestone-llm"
"""Name under which the model is called, whatever its weights are."""
_INSTALL: Final = "pip install 'ray[llm]' in the image of the cluster's GPU workers"


# Share of the memory that a replica was given. vLLM's default is nine tenths of the whole GPU, whatever Ray's share of it is.
_MEMORY: Final = 0.9
_COMPILED_APART: Final = {"VLLM_DISABLE_COMPILE_CACHE": "1"}  # replicas on one GPU would write to one cache (Ray's guide)


class LlmArguments(SettingsSection):
    """`args` of the application in serveConfigV2.

    Attributes:
        llm: Settings of the language model.
    """

    llm: LanguageModelSettings


def from_arguments(arguments: dict[str, Any]) -> Application:
    """Build the application that serveConfigV2 names, from `LlmArguments`.

    Raises:
        ConfigurationError: an argument is unknown or wrong; the application's status shows it.
        ModelUnavailableError: see `build_llm`.
    """
    try:
        settings = LlmArguments.model_validate(arguments).llm
    except ValidationError as error:
        raise _refused(error, "the arguments of the application `llm`") from None
    return build_llm(settings)


def build_llm(settings: LanguageModelSettings) -> Application:
    """Build a language model that is called through handles.

    Raises:
        ModelUnavailableError: vLLM is not installed, or not usable.
        ConfigurationError: this Ray or this vLLM does not accept the result of `llm_options`.
    """
    options = llm_options(settings)
    import_library("vllm", install=_INSTALL, needed_by="serve.graph.llm")
    llm = import_library("ray.serve.llm", "LLMConfig", "build_llm_deployment", install=_INSTALL, needed_by="serve.graph.llm")
    return built(options, config=llm.LLMConfig, deployment=llm.build_llm_deployment)


def built(options: Mapping[str, Any], *, config: Callable[..., Any], deployment: Callable[[Any], Application]) -> Application:
    """Build the application from these options.

    Args:
        options: See `llm_options`.
        config: `ray.serve.llm.LLMConfig`; it refuses fields that it does not know.
        deployment: `ray.serve.llm.build_llm_deployment`; it refuses arguments that vLLM's engine does not know.

    Raises:
        ConfigurationError: either refuses; the message says what.
    """
    try:
        return deployment(config(**options))
    except ValueError as error:  # pydantic's ValidationError is one
        raise _refused(error, "the language model") from None


def check_llm(settings: LanguageModelSettings) -> None:
    """Refuse settings that no cluster could run.

    Raises:
        ConfigurationError: names the setting.
    """
    if settings.max_replicas < settings.min_replicas:
        raise ConfigurationError(
            f"serve.graph.llm.max_replicas is {settings.max_replicas}, less than min_replicas ({settings.min_replicas})",
            hint="raise it, or lower min_replicas",
            setting="serve.graph.llm.max_replicas",
        )
    if settings.gpus > 1 and settings.gpus != int(settings.gpus):
        raise ConfigurationError(
            f"serve.graph.llm.gpus is {settings.gpus:g}",
            hint="a share below 1, or whole GPUs, which one model is spread over",
            setting="serve.graph.llm.gpus",
        )


def llm_options(settings: LanguageModelSettings) -> dict[str, Any]:
    """Return the fields of `ray.serve.llm.LLMConfig` as JSON. Ray adds the replica's own CPU to the first bundle.

    Raises:
        ConfigurationError: see `check_llm`.
    """
    check_llm(settings)
    engine: dict[str, Any] = {} if settings.max_model_len is None else {"max_model_len": settings.max_model_len}
    replicas: dict[str, Any] = {"min_replicas": settings.min_replicas, "max_replicas": settings.max_replicas}
    options: dict[str, Any] = {
        "model_loading_config": {"model_id": MODEL_ID, "model_source": settings.model},
        "deployment_config": {"autoscaling_config": replicas, "max_surge_percent": 100},
        "engine_kwargs": engine,
    }
    if settings.gpus == 0:
        options["placement_group_config"] = {"bundles": [{"CPU": 1}]}
    elif settings.gpus < 1:
        options["placement_group_config"] = {"bundles": [{"GPU": settings.gpus}]}
        options["runtime_env"] = {"env_vars": dict(_COMPILED_APART)}
        engine["gpu_memory_utilization"] = round(_MEMORY * settings.gpus, 3)
    else:  # one model on whole GPUs; a bundle with one GPU each is Ray's default
        engine["tensor_parallel_size"] = int(settings.gpus)
    return options


def _refused(error: ValueError, what: str) -> ConfigurationError:
    reason = str(error)
    if isinstance(error, ValidationError):
        place, why = refusal_of(error)
        reason = f"{place or 'the whole'}: {why}"
    return ConfigurationError(
        f"{what} cannot be as configured: {reason}",
        hint="correct the section serve.graph.llm; docs/graph.md explains it",
        setting="serve.graph.llm",
    )
