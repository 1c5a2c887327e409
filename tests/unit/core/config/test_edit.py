"""An edit of the settings file keeps everything else in it, and writes nothing that is not allowed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from tests.support.cli import run_here

from lodestone.config.edit import set_setting, unset_setting
from lodestone.config.settings import load_settings
from lodestone.errors import ConfigurationError, InvalidRequestError, NotFoundError, UnknownNameError

FILE = """# what I changed
profile = "embedded"  # for now

[index]  # fast
workers = 2  # two cores
# not yet: batch_size = 8

[generators.a]
kind = "http"
url = "https://x.example"
"""


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("LODESTONE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "lodestone.toml"
    file.write_text(FILE, encoding="utf-8")
    return file


def test_one_line_changes_and_comments_stay(path: Path) -> None:
    done = set_setting(path, "index.workers", "4")
    assert (done.before, done.after) == (2, 4)
    assert path.read_text(encoding="utf-8") == FILE.replace("workers = 2  #", "workers = 4  #")
    unset_setting(path, "index.workers")
    assert path.read_text(encoding="utf-8") == FILE.replace("workers = 2  # two cores\n", "")


def test_a_new_section_is_made(path: Path) -> None:
    set_setting(path, "serve.auth.keys", "true")
    text = path.read_text(encoding="utf-8")
    assert text.startswith(FILE)
    assert "[serve.auth]\nkeys = true" in text
    assert load_settings({"home": path.parent}).settings.serve.auth.keys is True


def test_a_file_is_made_where_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lodestone.toml"
    assert set_setting(path, "index.workers", "3").before is None
    assert path.read_text(encoding="utf-8").strip() == "[index]\nworkers = 3"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("serve.load.rate", "600/minute", "600/minute"),
        ("query.generators", '["a"]', ["a"]),
        ("query.gate", "false", False),
        ("query.gate_threshold", "0.5", 0.5),
        ("generators.a.model", "123", "123"),  # a number that has to be a text
        ("generators.a.key_env", "PAINTER_KEY", "PAINTER_KEY"),
        ("log_level", '"debug"', "debug"),
    ],
)
def test_a_value_is_read_as_the_setting_needs_it(path: Path, name: str, text: str, value: object) -> None:
    assert set_setting(path, name, text).after == value
    loaded = load_settings({"home": path.parent})
    assert loaded.sources[name] == str(path)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("index.workrs", "4", ConfigurationError),
        ("index.workers", "many", ConfigurationError),
        ("index.workers", "-1", ConfigurationError),
        ("index", "4", ConfigurationError),
        ("index.workers.more", "4", ConfigurationError),
        ("profile", "nothing", UnknownNameError),
        ("home", "/elsewhere", InvalidRequestError),
        ("index..workers", "4", InvalidRequestError),
        ("store.api_key", "hunter2", InvalidRequestError),
        ("catalog_url", "postgresql://ada:hunter2@db.example/x", InvalidRequestError),
        ("generators.a.url", "https://x.example/?key=hunter2", InvalidRequestError),
        ("generators.a.options.token", "hunter2", InvalidRequestError),
    ],
)
def test_what_is_not_allowed_leaves_the_file_alone(path: Path, name: str, text: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        set_setting(path, name, text)
    assert "hunter2" not in f"{caught.value}{getattr(caught.value, 'hint', '')}"
    assert path.read_text(encoding="utf-8") == FILE
    assert [file.name for file in path.parent.iterdir()] == ["lodestone.toml"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("search.limit", "setting 'search' is wrong: there is no setting or section of this name"),
        (
            "query.dephts",
            "setting 'query.dephts' is wrong: there is no setting or section of this name; did you mean 'query.depth'?",
        ),
        ("indx.workers", "setting 'indx' is wrong: there is no setting or section of this name; did you mean 'index'?"),
    ],
)
def test_an_unknown_name_is_said_to_be_with_the_name_that_may_be_meant(path: Path, name: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        set_setting(path, name, "5")
    assert caught.value.message == told


def test_the_environment_hides_no_wrong_value(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODESTONE_INDEX__WORKERS", "2")
    with pytest.raises(ConfigurationError, match=r"index\.workers"):
        set_setting(path, "index.workers", "-5")


def test_a_file_that_is_wrong_can_be_mended(path: Path) -> None:
    path.write_text(FILE.replace("workers = 2", 'workers = "many"'), encoding="utf-8")
    assert set_setting(path, "index.workers", "2").before == "many"
    path.write_text(FILE + "\n[indx]\nworkers = 2\n", encoding="utf-8")
    unset_setting(path, "indx")
    load_settings({"home": path.parent})


def test_what_is_not_set_cannot_be_taken_out(path: Path) -> None:
    for name in ("index.slice_size", "serve.port", "profile.x", "nothing"):
        with pytest.raises(NotFoundError):
            unset_setting(path, name)
    with pytest.raises(ConfigurationError, match="kind"):
        unset_setting(path, "generators.a.kind")  # the rest would be no engine
    assert path.read_text(encoding="utf-8") == FILE
    unset_setting(path, "generators.a")


def test_permissions_and_links_stay(path: Path, tmp_path: Path) -> None:
    path.chmod(0o600)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    set_setting(link, "index.workers", "4")
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "workers = 4" in path.read_text(encoding="utf-8")


def test_the_commands_say_the_file_and_what_overrides_it(path: Path) -> None:
    home = path.parent
    done = run_here("config", "set", "index.workers", "4", home=home, LODESTONE_INDEX__WORKERS="1")
    assert done.code == 0, done.err
    assert f"{path}: index.workers = 4" in done.out.replace("\n", "")
    assert "LODESTONE_INDEX__WORKERS overrides it" in done.out
    told = json.loads(run_here("config", "unset", "index.workers", "-o", "json", home=home).out)
    assert (told["before"], told["after"], told["file"]) == (4, None, str(path))
    refused = run_here("config", "set", "index.workers", "5", home=home, LODESTONE_URL="http://127.0.0.1:9")
    assert (refused.code, "LODESTONE_URL" in refused.err) == (2, True)
    path.write_text("[index]\nworkers = 'many'\n", encoding="utf-8")
    assert run_here("config", "unset", "index.workers", home=home).code == 0


def test_a_new_key_comes_with_the_lines_that_make_it_count(tmp_path: Path) -> None:
    made = run_here("keys", "create", "app", home=tmp_path)
    assert "lodestone config set serve.auth.keys true" in made.err
    assert str(tmp_path / "lodestone.toml") in made.err.replace("\n", "")
    assert "[serve.auth]" in made.err
    assert "keys = true" in made.err
    assert run_here("config", "set", "serve.auth.keys", "true", home=tmp_path).code == 0
    assert "config set" not in run_here("keys", "create", "more", home=tmp_path).err
