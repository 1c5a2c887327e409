"""How is a language model served beside the graph? By `ray.serve.llm` (vLLM), as an application of its own without a route.

Nothing of it is reachable over HTTP: it asks nobody for a key. Deployments of the graph find it by its application's name.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from ray import serve

from lodestone.config.serve import LanguageModelSettings
from lodestone.models.packages import import_library

LLM_APPLICATION: Final = "llm"
MODEL_ID: Final = "lodestone-llm"
"""Under which the model is asked for, whatever its weights are."""
_INSTALL: Final = "pip install 'ray[llm]' in the image of the cluster's GPU workers"


class Arguments(BaseModel):
    """`args` of the application in serveConfigV2."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    llm: LanguageModelSettings


def from_arguments(arguments: dict[str, Any]) -> serve.Application:
    """The application that serveConfigV2 names: `Arguments`."""
    return build_llm(Arguments.model_validate(arguments).llm)


def build_llm(settings: LanguageModelSettings) -> serve.Application:
    """A language model behind handles.

    Raises:
        ModelUnavailableError: vLLM is not installed, or not usable.
    """
    import_library("vllm", install=_INSTALL, needed_by="serve.graph.llm")
    llm = import_library("ray.serve.llm", "LLMConfig", "build_llm_deployment", install=_INSTALL, needed_by="serve.graph.llm")
    application: serve.Application = llm.build_llm_deployment(llm.LLMConfig(**llm_options(settings)))
    return application


def llm_options(settings: LanguageModelSettings) -> dict[str, Any]:
    """What `ray.serve.llm.LLMConfig` is made of; JSON."""
    engine: dict[str, Any] = {} if settings.max_model_len is None else {"max_model_len": settings.max_model_len}
    replicas: dict[str, Any] = {"min_replicas": settings.min_replicas, "max_replicas": settings.max_replicas}
    options: dict[str, Any] = {
        "model_loading_config": {"model_id": MODEL_ID, "model_source": settings.model},
        "deployment_config": {"autoscaling_config": replicas, "max_surge_percent": 100},
        "engine_kwargs": engine,
    }
    if settings.gpus > 1:  # whole ones, shared by one model
        engine["tensor_parallel_size"] = int(settings.gpus)
    else:  # a share of one, or none
        options["placement_group_config"] = {"bundles": [{"CPU": 1, "GPU": settings.gpus} if settings.gpus else {"CPU": 1}]}
    return options
