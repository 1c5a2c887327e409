"""The key of a remote service: where it is read, what is refused, and that it is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from lodestone.errors import ModelUnavailableError
from lodestone.remote.credentials import Credential

KEY = "sk-very-secret-0123456789"


def credential(*, key_env: str | None = None, key_file: Path | None = None) -> Credential:
    return Credential("the chat model", setting="language", key_env=key_env, key_file=key_file)


def value_of(key: Credential) -> str:
    secret = key.read()
    assert secret is not None
    return secret.get_secret_value()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    return path


def test_a_service_without_a_key_needs_none() -> None:
    assert credential().read() is None
    assert credential().source is None
    assert credential().scrubbed(KEY) == KEY


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setenv("CHAT_KEY", " from-the-environment ")
    both, from_file = credential(key_env="CHAT_KEY", key_file=file), credential(key_file=file)

    assert both.source == "environment variable CHAT_KEY"
    assert from_file.source == f"file {file}"
    assert value_of(both) == "from-the-environment"
    assert value_of(from_file) == KEY


def test_a_changed_key_is_used_at_the_next_call(file: Path) -> None:
    key = credential(key_file=file)
    assert value_of(key) == KEY
    file.write_text("rotated")
    assert value_of(key) == "rotated"


def test_the_key_is_taken_out_of_texts_and_is_in_no_representation(file: Path) -> None:
    key = credential(key_file=file)
    assert key.scrubbed(f"no such key: {KEY}.") == "no such key: ***."
    assert KEY not in repr([key, key.read(), vars(key)])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is missing or empty"),
        ("two words", "one word of printable ASCII"),
        ("first\nsecond", "one word of printable ASCII"),
        ("schlüssel", "one word of printable ASCII"),
        ("x" * 16_385, "one word of printable ASCII"),
        (None, "cannot be read: FileNotFoundError"),
    ],
)
def test_an_unusable_key_is_refused_without_its_text(file: Path, content: str | None, reason: str) -> None:
    file.unlink()
    if content is not None:
        file.write_text(content)
    with pytest.raises(ModelUnavailableError) as caught:
        credential(key_file=file).read()

    message = caught.value.message
    assert message.startswith(f"the key of the chat model (file {file}) ")
    assert reason in message
    assert not content or content not in message
    assert caught.value.hint == "set it, or change language.key_env or key_file"
    assert caught.value.details["charged"] is False
    assert credential(key_file=file).scrubbed("text") == "text"


def test_the_longest_key_is_accepted(file: Path) -> None:
    file.write_text("x" * 16_384)
    assert len(value_of(credential(key_file=file))) == 16_384
