"""No refused, shown or printed setting gives a secret away."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError
from rich.pretty import pretty_repr
from typer.testing import CliRunner

from lodestone.config.engines import EngineSettings
from lodestone.config.settings import Settings, load_settings
from lodestone.config.store import StoreSettings
from lodestone.errors import ConfigurationError, SourceError
from lodestone.generators.engines.diffusers_options import DiffusersOptions
from lodestone_schemas.redaction import refused_value, shown_setting

SECRET = "hunter2-s3cr3t"


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("LODESTONE_")]:
        monkeypatch.delenv(name)


def _everything_said(act: Callable[[], object]) -> str:
    """Return message, hint, details and traceback, with all causes, of the error that `act` raises."""
    with pytest.raises(ConfigurationError) as caught:
        act()
    error = caught.value
    return "\n".join([*traceback.format_exception(error), repr(error), error.hint, repr(error.details)])


@pytest.mark.parametrize(
    "toml",
    [
        f'[store]\ngrpc_port = 99999\napi_key = "{SECRET}"',  # the section's own rule is broken: its value is the whole section
        f'[store]\napi_kee = "{SECRET}"',  # a name with a typing error
        f'[store]\napi_key = ["{SECRET}"]',
        f'store = "{SECRET}"',  # a text where a table is expected
        f'[store]\nurl = ["https://ada:{SECRET}@db.example", 7]',
        f'[generators.a]\nurl = "https://ada:{SECRET}@x.example"',  # without its kind
        f'[generators.a]\nkind = 7\nurl = "https://x.example/?code={SECRET}"',
        f'[generators.a]\nkind = "http"\nurl = {{ token = "{SECRET}" }}',
        f'[generators.a]\nkind = "http"\ntimeout_s = "https://ada:{SECRET}@x.example"',
        f'[generators.a]\nkind = "http"\npassword = "{SECRET}"',
        f'[profiles.own]\nsecret = "{SECRET}"',
        f'[profiles.own]\nspace_priors = {{ token = "{SECRET}" }}',
        f'[serve.telemetry]\nsample = "https://x.example/?api-key={SECRET}"',
    ],
)
def test_a_refused_setting_of_the_file_is_named_without_a_secret(tmp_path: Path, toml: str) -> None:
    (tmp_path / "lodestone.toml").write_text(toml + "\n", encoding="utf-8")
    said = _everything_said(lambda: load_settings({"home": tmp_path}))
    assert "setting '" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LODESTONE_STORE", json.dumps({"grpc_port": 99999, "api_key": SECRET})),
        ("LODESTONE_STORE", f'{{"api_key": "{SECRET}", '),  # no JSON
        ("LODESTONE_STORE", SECRET),
        ("LODESTONE_GENERATORS__A__OPTIONS", f'{{"token": "{SECRET}"'),
        ("LODESTONE_GENERATORS__A", f"https://ada:{SECRET}@x.example"),
        ("LODESTONE_GENERATORS__A__URL", f"https://ada:{SECRET}@x.example"),  # an engine without a kind
        ("LODESTONE_STORE__API_KEE", SECRET),
    ],
)
def test_a_refused_variable_is_named_without_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    said = _everything_said(lambda: load_settings({"home": tmp_path}))
    assert "wrong" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "options", [{"api_key": SECRET}, {"steps": {"token": SECRET}}, {"steps": [SECRET]}, {"strength": f"https://a:{SECRET}@b.c"}]
)
def test_a_refused_option_of_an_engine_is_named_without_a_secret(options: dict[str, object]) -> None:
    said = _everything_said(lambda: DiffusersOptions.of(options, engine="painter"))
    assert "'painter'" in said
    assert next(iter(options)) in said
    assert "hunter2" not in said


def test_a_harmless_value_is_still_quoted(tmp_path: Path) -> None:
    (tmp_path / "lodestone.toml").write_text("[store]\nwriters = 999\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"'store.writers' is wrong: .*less than or equal to 64 \(got 999\)$"):
        load_settings({"home": tmp_path})
    (tmp_path / "lodestone.toml").write_text("[serve.load]\nrate = 'often'\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"\(got 'often'\)$"):
        load_settings({"home": tmp_path})
    (tmp_path / "lodestone.toml").write_text("[store]\ngrpc_port = 99999\napi_key = 'x'\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"99999 is out of range.* \(got a table with 'api_key', 'grpc_port'\)$"):
        load_settings({"home": tmp_path})


def test_a_section_that_is_made_alone_hides_its_input() -> None:
    with pytest.raises(ValidationError) as caught:
        StoreSettings(grpc_port=99999, api_key=SECRET)  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


def _settings(tmp_path: Path) -> Settings:
    return load_settings(
        {
            "home": tmp_path,
            "catalog_url": f"postgresql://ada:{SECRET}@db.example/lodestone",
            "store": {"kind": "server", "url": [f"https://{SECRET}@one.example", "http://two.example"], "grpc_port": [1, 2]},
            "serve": {"telemetry": {"otlp_endpoint": f"https://x.example/v1?code={SECRET}"}},
            "generators": {
                "a": {
                    "kind": "http",
                    "url": f"https://x.example/draw?api-version=2024&key={SECRET}",
                    "key_env": "PAINTER_KEY",
                    "options": {"extra": {"auth": SECRET, "size": 512}, "password": 12345678, "header_env": {"X-Key": "NAMED"}},
                }
            },
        }
    ).settings


@pytest.mark.parametrize("show", [repr, str, pretty_repr, lambda settings: repr(settings.generators), "{!r}".format])
def test_printed_settings_hide_what_is_secret_and_nothing_else(tmp_path: Path, show: Callable[[Settings], str]) -> None:
    shown = show(_settings(tmp_path))
    assert "hunter2" not in shown
    assert "12345678" not in shown
    for kept in ("https://x.example/draw?api-version=2024", "PAINTER_KEY", "NAMED", "512"):
        assert kept in shown


def test_config_show_hides_what_is_secret_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lodestone_cli.commands.config import app

    (tmp_path / "lodestone.toml").write_text(
        f"catalog_url = 'postgresql://ada:{SECRET}@db.example/lodestone'\n"
        f"[store]\napi_key = '{SECRET}'\nurl = 'http://{SECRET}@one.example'\n"
        f"[generators.a]\nkind = 'http'\nurl = 'https://ada:{SECRET}@x.example/?api-version=2&sig={SECRET}'\n"
        f"options = {{ api_key = '{SECRET}', extra = {{ secret = 12345678 }} }}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("LODESTONE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "400")
    for arguments in (["show"], ["show", "-o", "json"], ["show", "generators"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert "hunter2" not in result.output
        assert "12345678" not in result.output
        assert "x.example/?api-version=2" in result.output.replace("\n", "")


def test_no_error_of_lodestone_keeps_a_secret_of_an_address() -> None:
    error = SourceError(f"no answer from https://ada:{SECRET}@x.example/p", hint=f"try https://x.example/?token={SECRET}",
                        url=f"https://{SECRET}@x.example")  # fmt: skip
    assert "hunter2" not in f"{error}{error.hint}{error.details}{error!r}"
    assert error.details == {"url": "https://***@x.example"}


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("a.key", "x1", "***"),
        ("a.x-auth", "x1", "***"),
        ("a.key_env", "NAME", "NAME"),
        ("a.key_file", "/run/key", "/run/key"),
        ("a.header_env.Authorization", "NAME", "NAME"),
        ("serve.auth.oidc_issuer", "https://id.example", "https://id.example"),
        ("serve.auth.keys", True, True),
        ("a.max_tokens", 77, 77),
        ("a.secret", 77, "***"),
        ("a.secret", "", ""),
        ("a.credentials.user", "ada", "***"),
        ("url", "postgresql://ada@db.example/x", "postgresql://ada@db.example/x"),
        ("url", "postgresql://ada:p/a@ss?@db.example/x", "postgresql://***@db.example/x"),
        ("url", "s3://bucket/some:where", "s3://bucket/some:where"),
        ("list", ["http://t0ken@a.example", "b"], ["http://***@a.example", "b"]),
    ],
)
def test_a_setting_is_hidden_by_its_name_or_inside_its_address(name: str, value: object, shown: object) -> None:
    assert shown_setting(name, value) == shown


def test_a_long_value_is_cut_where_it_is_quoted() -> None:
    assert len(refused_value({"type": "int_parsing", "loc": ("n",), "input": "x" * 5_000})) <= 210
    engine = EngineSettings(kind="http", options={"extra": {f"a{i}": 1 for i in range(20)}})
    assert refused_value({"type": "int_type", "loc": ("n",), "input": engine.options["extra"]}).count(",") == 8
