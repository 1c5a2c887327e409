"""A cluster's configuration is what the settings say, holds no secrets, and is refused when it cannot work."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from pydantic import BaseModel
from ray.serve import Application
from ray.serve.config import AutoscalingConfig
from ray.serve.schema import ServeDeploySchema
from tests.support.cli import run_here

from lodestone.config.serve import LanguageModelSettings
from lodestone.config.settings import Settings, load_settings
from lodestone.errors import ConfigurationError, ModelUnavailableError
from lodestone_serve.graph.application import from_arguments
from lodestone_serve.graph.config import as_yaml, read_config, serve_config
from lodestone_serve.graph.llm import MODEL_ID, build_llm, built, llm_options
from lodestone_serve.graph.llm import from_arguments as llm_application
from lodestone_serve.graph.policy import BUSY, OCCUPANCY, ByOccupancy, by_busy_queries
from lodestone_serve.graph.replicas import with_own_threads
from lodestone_serve.graph.secrets import secret_variables
from lodestone_serve.graph.stages import deployment_options, most_resources

SHARED = {"store": {"kind": "server"}, "catalog_url": "postgresql+psycopg://db/lodestone"}


def settings(graph: dict | None = None, **sections) -> Settings:
    serve = {**sections.pop("serve", {}), "graph": graph or {}}
    return load_settings({"home": "/var/lib/lodestone", "serve": serve, **sections}).settings


def deployments(config: dict) -> dict[str, dict]:
    return {one["name"]: one for one in config["applications"][0]["deployments"]}


def graph_settings(**ingress) -> Settings:
    return settings(
        {
            "shape": "graph",
            "ingress": {"min_replicas": 2, "max_replicas": 4, "cpus": 2, **ingress},
            "encoders": {"gpus": 0.5, "max_queued": 90, "batch": 32, "resources": {"a10": 0.5}},
            "generators": {"drawn": {"min_replicas": 0, "max_replicas": 3, "gpus": 1}},
            "llm": {"model": "/models/llama", "gpus": 2},
        },
        generators={
            "drawn": {"kind": "diffusers", "model": "/models/sd"},
            "bought": {"kind": "openai", "key_env": "OPENAI_KEY"},
        },
        **SHARED,
    )


def test_ray_accepts_the_configuration_of_both_shapes():
    for one in (settings(), graph_settings()):
        ServeDeploySchema.model_validate(serve_config(one))


def test_the_shape_app_is_one_deployment_with_one_replica():
    (deployment,) = deployments(serve_config(settings())).values()
    assert (deployment["name"], deployment["num_replicas"], deployment["max_surge_percent"]) == ("App", 1, 0)


def test_every_stage_that_is_worth_a_hop_is_a_deployment_of_its_own():
    found = deployments(serve_config(graph_settings()))
    assert set(found) == {"Ingress", "Encoders", "Generator-drawn", "Generator-bought"}
    assert found["Encoders"]["ray_actor_options"] == {"num_cpus": 1.0, "num_gpus": 0.5, "resources": {"a10": 0.5}}
    assert found["Encoders"]["user_config"] == {"batch": 32}
    assert found["Generator-drawn"]["autoscaling_config"]["min_replicas"] == 0
    assert found["Generator-bought"]["ray_actor_options"]["num_cpus"] < 1
    assert "policy" in found["Ingress"]["autoscaling_config"]
    assert "policy" not in found["Generator-drawn"]["autoscaling_config"]


def test_fusion_is_a_deployment_only_where_the_settings_say_so():
    enabled = {"shape": "graph", "fusion": {"enabled": True, "max_replicas": 3, "cpus": 0.5}}
    found = deployments(serve_config(settings(enabled)))
    assert found["Fusion"]["ray_actor_options"] == {"num_cpus": 0.5}
    assert found["Fusion"]["autoscaling_config"]["max_replicas"] == 3
    from_arguments(serve_config(settings(enabled))["applications"][0]["args"])
    assert "Fusion" not in deployments(serve_config(settings({"shape": "graph"})))


def test_queues_are_divided_among_the_callers_because_serve_counts_for_each():
    assert deployments(serve_config(graph_settings()))["Encoders"]["max_queued_requests"] == 23  # of 90, by 4 replicas
    none = settings({"shape": "graph", "encoders": {"max_queued": 0}})
    assert deployments(serve_config(none))["Encoders"]["max_queued_requests"] == 1


def test_stages_without_state_start_their_new_replicas_before_the_old_ones_stop():
    found = deployments(serve_config(graph_settings()))
    assert {name: one["max_surge_percent"] for name, one in found.items()} == dict.fromkeys(found, 100)
    owner = deployments(serve_config(settings({"shape": "graph"})))  # the embedded store has one owner
    assert (owner["Ingress"]["max_surge_percent"], owner["Encoders"]["max_surge_percent"]) == (0, 100)


def test_several_replicas_of_the_ingress_leave_watching_and_repairing_to_others():
    one = settings({"shape": "graph"}, **SHARED)
    several = settings({"shape": "graph", "ingress": {"max_replicas": 2}}, **SHARED)
    told = [serve_config(each)["applications"][0]["args"]["settings"]["serve"].get("upkeep", True) for each in (one, several)]
    assert told == [True, False]


def test_a_replica_that_is_stopped_has_the_time_of_a_query_to_end_its_work():
    found = deployments(serve_config(settings(query={"deadline_ms": 45_000})))
    assert found["App"]["graceful_shutdown_timeout_s"] > 45


def test_secrets_stay_out_and_are_named():
    one = settings(
        store={"kind": "server", "api_key": "k3y", "url": "https://qdrant:6333"},
        catalog_url="postgresql+psycopg://lodestone:pa55@db/lodestone",
        generators={"bought": {"kind": "openai", "key_env": "OPENAI_KEY"}},
    )
    text = as_yaml(serve_config(one))
    assert "k3y" not in text
    assert "pa55" not in text
    assert "https://qdrant:6333" in text
    assert secret_variables(one) == ["LODESTONE_CATALOG_URL", "LODESTONE_STORE__API_KEY", "OPENAI_KEY"]


def test_what_looks_like_a_secret_among_an_engines_options_is_refused():
    one = settings(generators={"bought": {"kind": "http", "url": "https://x", "options": {"headers": {"Authorization": "b"}}}})
    with pytest.raises(ConfigurationError, match=r"generators\.bought\.options\.headers\.Authorization"):
        serve_config(one)


def test_a_cluster_reads_the_settings_back_and_adds_the_secrets_of_its_environment(monkeypatch: pytest.MonkeyPatch):
    one = settings(profile="embedded", query={"guides": 3}, **{**SHARED, "store": {"kind": "server", "api_key": "k3y"}})
    flags = yaml.safe_load(as_yaml(serve_config(one)))["applications"][0]["args"]["settings"]
    monkeypatch.setenv("LODESTONE_STORE__API_KEY", "k3y")
    there = load_settings(flags).settings
    assert there == one


def test_changing_the_number_of_replicas_changes_nothing_that_restarts_them():
    few, many = (serve_config(graph_settings(max_replicas=n))["applications"][0] for n in (4, 8))
    assert few["args"] == many["args"]
    assert few["runtime_env"] == many["runtime_env"]
    assert few["deployments"] != many["deployments"]


@pytest.mark.parametrize("stage", ["fusion", "tagging"])
def test_limits_of_an_optional_stage_restart_nothing_either(stage: str):
    def made(**options: object) -> dict:
        return serve_config(settings({"shape": "graph", stage: {"enabled": True, **options}}))["applications"][0]

    few, many, other = made(max_replicas=2), made(max_replicas=4, max_queued=9), made(resources={"near": 1.0})
    assert few["args"] == many["args"] == other["args"]
    assert few["args"]["settings"]["serve"]["graph"] == {"shape": "graph", stage: {"enabled": True}}
    assert len({str(one["deployments"]) for one in (few, many, other)}) == 3
    prepared = serve_config(settings({"shape": "graph", stage: {"max_replicas": 4}}))["applications"][0]
    assert prepared["args"]["settings"]["serve"]["graph"] == {"shape": "graph"}


@pytest.mark.parametrize(
    ("graph", "sections", "setting"),
    [
        ({"shape": "app", "ingress": {"max_replicas": 2}}, SHARED, "serve.graph.ingress.max_replicas"),
        ({"shape": "graph", "ingress": {"max_replicas": 2}}, {}, "serve.graph.ingress.max_replicas"),
        ({"shape": "graph", "ingress": {"max_replicas": 2}}, {"store": {"kind": "server"}}, "serve.graph.ingress.max_replicas"),
        ({"shape": "graph", "ingress": {"min_replicas": 0}}, SHARED, "serve.graph.ingress.min_replicas"),
        ({"shape": "graph", "encoders": {"min_replicas": 3, "max_replicas": 2}}, {}, "serve.graph.encoders.max_replicas"),
        ({"shape": "graph", "encoders": {"gpus": 1.5}}, {}, "serve.graph.encoders.gpus"),
        ({"shape": "app", "fusion": {"enabled": True}}, {}, "serve.graph.fusion.enabled"),
        ({"shape": "graph", "fusion": {"enabled": True, "min_replicas": 0}}, {}, "serve.graph.fusion.min_replicas"),
        ({"shape": "graph", "fusion": {"enabled": True, "min_replicas": 3}}, {}, "serve.graph.fusion.max_replicas"),
        ({"shape": "graph", "llm": {"model": "/m", "gpus": 1.5}}, {}, "serve.graph.llm.gpus"),
        ({"shape": "graph", "llm": {"model": "/m", "min_replicas": 2}}, {}, "serve.graph.llm.max_replicas"),
        ({"shape": "graph", "generators": {"magic": {"gpus": 1}}}, {}, "serve.graph.generators.magic"),
        ({"shape": "graph", "generators": {"exemplar": {"cpus": 2}}}, {}, "serve.graph.generators.exemplar"),
    ],
)
def test_a_graph_that_cannot_work_is_refused_by_the_name_of_its_setting(graph: dict, sections: dict, setting: str):
    with pytest.raises(ConfigurationError) as caught:
        serve_config(settings(graph, **sections))
    assert caught.value.details["setting"] == setting
    assert caught.value.hint


def test_a_service_for_everybody_that_asks_nobody_is_refused():
    with pytest.raises(ConfigurationError, match="key"):
        serve_config(settings(serve={"host": "0.0.0.0"}))
    open_ = {"host": "0.0.0.0", "auth": {"keys": True}, "public_hosts": ["search.example.org"]}
    assert serve_config(settings(serve=open_))["http_options"]["host"] == "0.0.0.0"


def test_the_language_model_is_an_application_that_nobody_reaches_over_http():
    llm = serve_config(graph_settings())["applications"][1]
    assert llm["route_prefix"] is None
    assert llm["args"]["llm"]["model"] == "/models/llama"


def test_a_language_model_has_whole_gpus_or_a_share_and_says_what_is_missing():
    assert llm_options(LanguageModelSettings(model="/m", gpus=2))["engine_kwargs"] == {"tensor_parallel_size": 2}
    shared = llm_options(LanguageModelSettings(model="/m", gpus=0.5, max_model_len=2048))
    assert shared["placement_group_config"] == {"bundles": [{"GPU": 0.5}]}
    assert shared["engine_kwargs"] == {"max_model_len": 2048, "gpu_memory_utilization": 0.45}
    if importlib.util.find_spec("vllm") is None:
        with pytest.raises(ModelUnavailableError, match="vllm") as caught:
            build_llm(LanguageModelSettings(model="/m"))
        assert "ray[llm]" in caught.value.hint


@pytest.fixture(scope="module")
def rays_own() -> type[BaseModel]:
    """`ray.serve.llm.LLMConfig`; that package cannot be imported without vLLM, the module that defines it can."""
    name = "ray.serve.llm" if importlib.util.find_spec("vllm") else "ray.llm._internal.serve.core.configs.llm_config"
    return pytest.importorskip(
        name, reason="this Ray has no LLMConfig that can be imported without vLLM", exc_type=ImportError
    ).LLMConfig


@pytest.mark.parametrize(("gpus", "kind", "bundles"), [(0, "cpu", 1), (0.5, "gpu", 1), (1, "gpu", None), (4, "gpu", None)])
def test_ray_takes_what_it_is_told_of_the_language_model(rays_own, gpus: float, kind: str, bundles: int | None):
    told = LanguageModelSettings(model="s3://models/llama", gpus=gpus, min_replicas=0, max_replicas=3, max_model_len=4096)
    config = rays_own(**llm_options(told))
    assert config.model_dump()["accelerator_config"]["kind"] == kind
    assert config.model_id == MODEL_ID
    group = config.placement_group_config
    assert (group and len(group["bundles"])) == bundles
    if group is not None:  # checked by Ray only where vLLM is
        pytest.importorskip("ray.llm._internal.common.placement").PlacementGroupConfig(**group)


def test_vllm_knows_every_argument_of_its_engine():
    engine = pytest.importorskip("vllm.engine.arg_utils", reason="vLLM is not installed: its arguments cannot be looked up")
    known = {field.name for field in dataclasses.fields(engine.AsyncEngineArgs)}
    for gpus in (0.5, 2):
        assert llm_options(LanguageModelSettings(model="/m", gpus=gpus, max_model_len=1))["engine_kwargs"].keys() <= known


def test_what_ray_or_vllm_do_not_know_of_a_language_model_is_refused_by_its_name(rays_own):
    options = llm_options(LanguageModelSettings(model="/m"))

    def of_an_older_vllm(config: BaseModel) -> Application:
        raise ValueError(f"Unknown engine argument: {next(iter(config.model_dump()['engine_kwargs']))}")

    with pytest.raises(ConfigurationError, match="tensor_parallel: Extra inputs are not permitted"):
        built({**options, "tensor_parallel": 2}, config=rays_own, deployment=of_an_older_vllm)
    with pytest.raises(ConfigurationError, match="Unknown engine argument: tensor_parallel_size"):
        built(options, config=rays_own, deployment=of_an_older_vllm)
    with pytest.raises(ConfigurationError, match=r"llm\.max_len: Extra inputs are not permitted$"):
        llm_application({"llm": {"model": "/m", "max_len": 7}})
    with pytest.raises(ConfigurationError, match="max_len"):
        settings({"shape": "graph", "llm": {"model": "/m", "max_len": 7}})


@pytest.mark.parametrize(("cpus", "threads"), [({"CPU": 4.0}, 4), ({"CPU": 0.1, "GPU": 0.5}, 1), ({}, 1)])
def test_a_replica_takes_the_threads_of_its_own_cpus_unless_the_settings_say_how_many(monkeypatch, cpus: dict, threads: int):
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(get_assigned_resources=lambda: cpus))
    assert with_own_threads(settings()).models.threads == threads
    assert with_own_threads(settings(models={"threads": 7})).models.threads == 7


def test_room_is_counted_for_all_replicas_and_for_those_that_an_update_starts_beside_them():
    needed = most_resources(deployment_options(graph_settings()))
    assert needed["CPU"] == pytest.approx(2 * (4 * 2 + 1 + 3 * 1 + 0.1))
    assert needed["GPU"] == pytest.approx(2 * (0.5 + 3))


def test_replicas_on_one_node_are_limited_where_the_settings_say_so():
    stages = {"shape": "graph", "ingress": {"max_replicas": 4, "max_per_node": 1}, "encoders": {}}
    given = deployments(serve_config(settings(stages, serve={"auth": {"keys": True}}, **SHARED)))

    assert given["Ingress"]["max_replicas_per_node"] == 1
    assert "max_replicas_per_node" not in given["Encoders"]


def test_the_ingress_scales_by_busy_queries_and_not_by_streams():
    def context(reported: dict, *, target: int = 2) -> SimpleNamespace:
        config = SimpleNamespace(target_ongoing_requests=4.0)
        return SimpleNamespace(aggregated_metrics=reported, config=config, target_num_replicas=target, total_num_requests=500)

    assert by_busy_queries(context({BUSY: {"a": 6.0, "b": 6.0}}))[0] == 3
    assert by_busy_queries(context({BUSY: {"a": 0.0, "b": 0.0}}))[0] == 0  # 500 open streams, and nothing to do
    assert by_busy_queries(context({}))[0] == 2  # nobody has reported yet
    scaling = deployments(serve_config(graph_settings()))["Ingress"]["autoscaling_config"]
    sent = AutoscalingConfig(**scaling).policy.get_policy()  # pickled and read again, as Serve's controller does
    assert sent(context({BUSY: {"a": 6.0, "b": 6.0}}))[0] == 3


def test_encoders_scale_by_how_full_their_passes_are_and_not_by_calls():
    def context(occupancy: dict, *, calls: float = 0.0) -> SimpleNamespace:
        reported = {OCCUPANCY: occupancy} if occupancy else {}
        return SimpleNamespace(aggregated_metrics=reported, target_num_replicas=2, total_num_requests=calls, config=None)

    policy = ByOccupancy(target=0.5, max_ongoing=16)
    assert policy(context({"a": 0.1, "b": 0.1}, calls=6))[0] == pytest.approx(0.75)  # small calls share passes
    assert policy(context({"a": 1.5, "b": 1.0}, calls=6))[0] == 5  # few calls, many pictures
    assert policy(context({"a": 0.1, "b": 0.1}, calls=40))[0] == 5  # more calls than two replicas take in
    assert policy(context({}, calls=40))[0] == 2  # nobody has reported yet
    stage = {"shape": "graph", "encoders": {"max_replicas": 3, "target_occupancy": 0.5, "max_ongoing": 16}}
    scaling = deployments(serve_config(settings(stage, **SHARED)))["Encoders"]["autoscaling_config"]
    sent = AutoscalingConfig(**scaling).policy  # pickled and read again, as Serve's controller does
    assert sent.get_policy()(**sent.policy_kwargs)(context({"a": 1.5, "b": 1.0}))[0] == 5


def test_a_file_is_read_back_edited_or_not():
    config = serve_config(graph_settings())
    config["applications"][0]["deployments"][1]["max_ongoing_requests"] = 5
    found = read_config(yaml.safe_dump(config))
    assert found.options["Encoders"]["max_ongoing_requests"] == 5
    assert found.flags["serve"]["port"] == 7860
    assert load_settings(found.flags).settings.serve.graph.shape == "graph"
    for wrong in ("[]", "a: [", "applications: []", "applications: [{name: x, import_path: a:b}]"):
        with pytest.raises(ConfigurationError):
            read_config(wrong)


def test_a_cluster_builds_the_application_from_the_arguments_and_refuses_wrong_ones():
    from_arguments(serve_config(graph_settings())["applications"][0]["args"])
    with pytest.raises(ConfigurationError, match="guides"):
        from_arguments({"settings": {"query": {"guides": "magic"}}})


def test_the_command_prints_the_configuration_and_names_what_was_left_out(tmp_path: Path):
    home, file = tmp_path / "home", tmp_path / "service.toml"
    file.write_text('[store]\nkind = "server"\napi_key = "k3y"\n', "utf8")
    ended = run_here("serve", "build", "--config", file, home=home)
    assert ended.code == 0, ended.err
    assert yaml.safe_load(ended.out)["applications"][0]["args"]["settings"]["store"] == {"kind": "server"}
    assert "LODESTONE_STORE__API_KEY" in ended.err
    assert run_here("serve", "build", "--output", "json", home=home).json["applications"][0]["name"] == "lodestone"
    written = tmp_path / "serve.yaml"
    assert run_here("serve", "build", "--file", written, home=home).code == 0
    ServeDeploySchema.model_validate(yaml.safe_load(written.read_text("utf8")))
    refused = run_here("serve", "--config", tmp_path / "missing.yaml", home=home)
    assert refused.code == 4
    assert "missing.yaml" in refused.err


def test_a_printed_configuration_is_served_here_with_its_own_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    served = {}
    monkeypatch.setattr(
        "lodestone_serve.hosting.run.serve_forever", lambda settings, **named: served.update(settings=settings, **named)
    )
    config = serve_config(settings({"shape": "graph"}, query={"guides": 3}, serve={"port": 7999}))
    config["applications"][0]["deployments"][1]["max_ongoing_requests"] = 5
    file = tmp_path / "service.yaml"
    file.write_text(as_yaml(config), "utf8")
    ended = run_here("serve", "--config", file, "--port", "0", home=tmp_path / "home")
    assert ended.code == 0, ended.err
    assert served["options"]["Encoders"]["max_ongoing_requests"] == 5
    assert served["settings"].query.guides == 3
    assert (served["settings"].serve.graph.shape, served["settings"].serve.port) == ("graph", 0)
