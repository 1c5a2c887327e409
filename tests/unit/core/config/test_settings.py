"""Each source of a setting overrides those below it, and a wrong value is refused by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from lodestone.config.profiles import find_profile
from lodestone.config.settings import load_settings
from lodestone.errors import ConfigurationError, UnknownNameError


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [n for n in os.environ if n.startswith("LODESTONE_")]:
        monkeypatch.delenv(name)


def test_each_source_overrides_the_one_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lodestone.toml").write_text("[index]\nworkers = 2\nslice_size = 64\nbatch_size = 8\n", encoding="utf-8")
    monkeypatch.setenv("LODESTONE_INDEX__WORKERS", "3")
    monkeypatch.setenv("LODESTONE_INDEX__SLICE_SIZE", "32")
    loaded = load_settings({"home": tmp_path, "index": {"workers": 4}})
    index = loaded.settings.index
    assert (index.workers, index.slice_size, index.batch_size, index.thumbnail_px) == (4, 32, 8, 320)
    assert loaded.sources["index.workers"] == "flag"
    assert loaded.sources["index.slice_size"] == "LODESTONE_INDEX__SLICE_SIZE"
    assert loaded.sources["index.batch_size"] == str(tmp_path / "lodestone.toml")
    assert loaded.sources["index.thumbnail_px"] == "default"


def test_the_file_is_read_from_the_home_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lodestone.toml").write_text('log_level = "debug"\n', encoding="utf-8")
    monkeypatch.setenv("LODESTONE_HOME", str(tmp_path))
    loaded = load_settings()
    assert loaded.settings.home == tmp_path
    assert loaded.settings.log_level == "debug"
    assert loaded.sources["home"] == "LODESTONE_HOME"


def test_a_named_file_wins_over_the_home_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lodestone.toml").write_text('log_level = "debug"\n', encoding="utf-8")
    other = tmp_path / "other.toml"
    other.write_text('log_level = "error"\n', encoding="utf-8")
    monkeypatch.setenv("LODESTONE_CONFIG", str(other))
    loaded = load_settings({"home": tmp_path})
    assert loaded.settings.log_level == "error"
    assert loaded.sources["log_level"] == str(other)


def test_two_homes_never_meet_but_share_models(tmp_path: Path) -> None:
    one, two = (load_settings({"home": tmp_path / name}).settings for name in "ab")
    assert one.home != two.home
    assert one.models.cache == two.models.cache
    assert tmp_path not in one.models.cache.parents


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("[index]\nworkers = -1\n", "index.workers"),
        ("[index]\nspeed = 9\n", "index.speed"),
        ("[store]\nquantization = 'int3'\n", "store.quantization"),
        ("this is not toml", "lodestone.toml"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, content: str, names: str) -> None:
    (tmp_path / "lodestone.toml").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"home": tmp_path})
    assert names in caught.value.message
    assert caught.value.hint


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODESTONE_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(ConfigurationError, match=r"none\.toml"):
        load_settings({"home": tmp_path})


def test_secrets_are_masked_when_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODESTONE_STORE__API_KEY", "hunter2")
    settings = load_settings({"home": tmp_path}).settings
    assert "hunter2" not in str(settings.model_dump(mode="json"))
    assert settings.store.api_key is not None
    assert settings.store.api_key.get_secret_value() == "hunter2"


def test_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_profile("enormous")
    assert "embedded" in caught.value.hint


def test_a_cluster_is_several_urls_with_a_grpc_port_for_all_or_one_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LODESTONE_STORE__KIND", "server")
    monkeypatch.setenv("LODESTONE_STORE__URL", "http://a:6333, http://b:6333")
    store = load_settings({"home": tmp_path}).settings.store
    assert (store.urls, store.grpc_ports) == (("http://a:6333", "http://b:6333"), (6334, 6334))
    assert (store.placement.shards, store.placement.replication) == (12, 2)
    monkeypatch.setenv("LODESTONE_STORE__GRPC_PORT", "6334,6344")
    monkeypatch.setenv("LODESTONE_STORE__SHARDS", "24")
    store = load_settings({"home": tmp_path}).settings.store
    assert (store.grpc_ports, store.placement.shards) == ((6334, 6344), 24)
    monkeypatch.delenv("LODESTONE_STORE__URL")
    with pytest.raises(ConfigurationError, match="1 urls have 2 grpc_ports"):
        load_settings({"home": tmp_path})


def test_one_server_is_given_no_placement(tmp_path: Path) -> None:
    (tmp_path / "lodestone.toml").write_text('[store]\nkind = "server"\nurl = ["http://a:6333"]\n', encoding="utf-8")
    store = load_settings({"home": tmp_path}).settings.store
    assert store.urls == ("http://a:6333",)
    assert (store.placement.shards, store.placement.replication, store.placement.write_consistency) == (None, None, None)


@pytest.mark.parametrize("content", ["url = []", 'url = ""', "grpc_port = 0", "oversampling = 0.5", "shards = 0"])
def test_a_store_that_cannot_be_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "lodestone.toml").write_text(f"[store]\n{content}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"home": tmp_path})
    assert "store" in caught.value.message


def test_a_variable_of_no_section_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODESTONE_CATALOG__URL", "postgresql+psycopg://me:hush@db/lodestone")
    with pytest.raises(ConfigurationError, match="'LODESTONE_CATALOG__URL' names no setting") as caught:
        load_settings()
    assert "hush" not in str(caught.value)


def test_a_former_name_is_read_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "lodestone.toml"
    file.write_text("[index]\nwave_slices = 7\nbatch_s = 20.0\n", encoding="utf8")
    monkeypatch.setenv("LODESTONE_INDEX__WAVE_S", "3")
    loaded = load_settings({"home": tmp_path})
    index = loaded.settings.index
    assert (index.batch_slices, index.batch_s) == (7, 20.0)  # where both names are given, today's counts
    assert loaded.sources["index.batch_slices"] == f"{file} (as index.wave_slices)"
    assert loaded.sources["index.batch_s"] == str(file)
    assert "index.wave_slices is named index.batch_slices now" in caplog.text
    assert "index.batch_s now" not in caplog.text  # the former name decides nothing
    assert "wave" not in repr(loaded.settings)


def test_a_variable_of_a_former_name_is_read_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LODESTONE_INDEX__WAVE_S", "3")
    loaded = load_settings({"home": tmp_path})
    assert loaded.settings.index.batch_s == 3
    assert loaded.sources["index.batch_s"] == "LODESTONE_INDEX__WAVE_S (as index.wave_s)"
    assert "index.wave_s is named index.batch_s now: LODESTONE_INDEX__WAVE_S" in caplog.text


def test_a_wrong_value_under_a_former_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lodestone.toml").write_text("[index]\nwave_slices = 0\n", encoding="utf8")
    with pytest.raises(ConfigurationError, match=r"index\.batch_slices"):
        load_settings({"home": tmp_path})
