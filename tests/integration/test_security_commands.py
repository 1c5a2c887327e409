"""Keys are made, looked at, replaced and ended from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Finished, run_here
from tests.support.home import settings_for
from tests.support.pictures import write_photos

from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest


def run(home: Path, *arguments: str) -> Finished:
    return run_here("keys", *arguments, home=home)


def test_a_key_lives_from_create_to_revoke(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run(home, "list", "-o", "json").json == []
    assert not home.exists(), "looking makes no home"
    options = ("-s", "search", "-s", "feedback", "-c", "holidays", "--expires", "90d", "--rate", "600/minute", "--force")
    made = run(home, "create", "photo app", *options, "-o", "json").json
    assert made["secret"].startswith(f"lodestone_{made['key']['key_id']}_")
    assert (made["key"]["scopes"], made["key"]["corpora"], made["key"]["rate"]) == (
        ["search", "feedback"], ["holidays"], "600/minute",
    )  # fmt: skip
    shown = run(home, "create", "other")
    assert shown.out.strip().startswith("lodestone_")
    assert len(shown.out.split()) == 1, "nothing but the key, for scripts"
    rotated = run(home, "rotate", made["key"]["key_id"], "--overlap", "0s", "-o", "json").json
    assert rotated["key"]["key_id"] == f"{made['key']['key_id']}-2"
    run(home, "revoke", rotated["key"]["key_id"])
    listed = run(home, "list")
    assert [line.split()[1] for line in listed.out.splitlines()] == ["revoked", "valid", "expired"]
    for secret in (made["secret"], rotated["secret"], shown.out.strip()):
        assert secret not in listed.out + run(home, "list", "-o", "json").out


def test_a_misspelt_corpus_makes_no_key(tmp_path: Path) -> None:
    home = tmp_path / "home"
    refused = run(home, "create", "x", "-c", "holidays")
    assert (refused.code, refused.out) == (2, "")
    assert "unknown corpus 'holidays'" in refused.err
    assert "none yet" in refused.err
    assert not home.exists()
    settings = settings_for(tmp_path)
    write_photos(tmp_path / "pictures", 1)
    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest((tmp_path / "pictures",), corpus="holidays"))
    misspelt = run(settings.home, "create", "x", "-c", "holidays", "-c", "holydays")
    assert misspelt.code == 2
    assert "known: holidays; for a corpus to come add --force" in misspelt.err
    assert run(settings.home, "list", "-o", "json").json == []
    assert run(settings.home, "create", "x", "-c", "holidays").code == 0
    assert run(settings.home, "create", "y", "-c", "holydays", "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("create", " "), 2),
        (("create", "x", "-s", "root"), 2),
        (("create", "x", "-s", "admin", "-c", "a"), 2),
        (("create", "x", "--expires", "soon"), 2),
        (("create", "x", "--expires", "2020-01-01"), 2),
        (("create", "x", "--expires", "999999d"), 2),
        (("create", "x", "--rate", "fast"), 2),
        (("revoke", "nope"), 3),
        (("rotate", "nope"), 3),
        (("rotate", "nope", "--overlap", "long"), 2),
    ],
)
def test_what_cannot_be_done_is_named(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    done = run(tmp_path / "home", *arguments)
    assert (done.code, done.out) == (code, "")
    assert "hint:" in done.err
    assert not (tmp_path / "home" / "catalog.sqlite").exists()
