"""The audit of dependencies tells finding nothing from not looking."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "audit.py"
SOUND = {"dependencies": [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}]}
BAD = {
    "dependencies": [
        {"name": "jinja2", "version": "3.1.2", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["3.1.3"]}]}
    ]
}


@pytest.fixture
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers(audit: ModuleType, monkeypatch: pytest.MonkeyPatch, canary: Any, local: Any) -> None:
    def audited(arguments: Sequence[str]) -> Any:
        found = canary if "--requirement" in arguments else local
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(audit, "_audited", audited)


def test_vulnerable_packages_are_named_and_fail(audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    answers(audit, monkeypatch, BAD, BAD)
    assert audit.main([]) == 1
    assert "jinja2 3.1.2: PYSEC-1 CVE-1, fixed in 3.1.3" in capsys.readouterr().out
    answers(audit, monkeypatch, BAD, SOUND)
    assert audit.main([]) == 0


def test_an_index_without_advisories_is_no_all_clear(audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    for canary in (SOUND, audit.NotAuditedError("no answer")):
        answers(audit, monkeypatch, canary, SOUND)
        monkeypatch.delenv(audit.REQUIRED, raising=False)
        assert audit.main([]) == 0
        assert "NOT audited" in capsys.readouterr().err
        monkeypatch.setenv(audit.REQUIRED, "1")
        assert audit.main([]) == 2


def test_what_is_accepted_is_accepted_for_a_while(audit: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ACCEPTED", {"CVE-1": (date(2026, 1, 31), "not reached by us")})
    assert audit.vulnerable(BAD, today=date(2026, 1, 31)) == []
    assert len(audit.vulnerable(BAD, today=date(2026, 2, 1))) == 1
