"""The commands of the deployment's documents name what there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from scripts.manifests.overlays import OVERLAYS, ROOT
from tests.support.manifests import built, pods_of

DOCS = ROOT / "docs"
PAGES = (DOCS / "deploy.md", *sorted((DOCS / "runbooks").glob("*.md")))
OURS = {"upgrade", "model-swap", "lose-a-node", "restore-qdrant", "rotate-keys", "scale-to-zero"}
KINDS = {
    "deploy": "Deployment",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "cronjob": "CronJob",
    "rayservice": "RayService",
    "rayjob": "RayJob",
    "job": "Job",
    "externalsecret": "ExternalSecret",
    "clusters.postgresql.cnpg.io": "Cluster",
}


def _lines(page: Path) -> Iterator[str]:
    """Command lines of a page, those that go on joined."""
    for block in re.findall(r"^```bash\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.partition("   #")[0].strip()


def _spoken(page: Path) -> Iterator[str]:
    """Calls of `lodestone` anywhere on a page."""
    text = "\n".join([*_lines(page), *re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))])
    yield from re.findall(r"(?:^|-- |entrypoint ')(lodestone [^'|)\n]+)", text, re.MULTILINE)


@cache
def _commands() -> Any:
    from lodestone_cli import main

    main._load_commands()
    return typer.main.get_command(main.app)


def test_each_runbook_is_there_and_none_is_empty() -> None:
    assert {page.stem for page in PAGES} >= OURS
    assert all(any(_lines(page)) for page in PAGES if page.stem in OURS)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in {*OURS, "deploy"}], ids=lambda page: page.stem)
def test_commands_of_lodestone_exist_with_their_options(page: Path) -> None:
    root = _commands()
    for call in _spoken(page):
        command, words = root, shlex.split(call)[1:]
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, f"{page.name}: {call}"
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= options, f"{page.name}: {call}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in {*OURS, "deploy"}], ids=lambda page: page.stem)
def test_objects_that_kubectl_is_told_of_are_in_an_overlay(page: Path) -> None:
    names = {(found["kind"], found["metadata"]["name"]) for overlay in OVERLAYS for found in built(overlay)}
    labels = {value for overlay in OVERLAYS for pod in pods_of(overlay) for value in pod.labels.items()}
    for line in _lines(page):
        if "kubectl" not in line:
            continue
        for kind, name in re.findall(r"\b([a-z.]+)[ /](lodestone-?[a-z-]*[a-z])\b", line):
            if kind in KINDS:
                assert (KINDS[kind], name) in names, f"{page.name}: {line}"
        for key, value in re.findall(r"--selector (\S+?)=(\S+)", line):
            assert (key, value) in labels, f"{page.name}: {line}"
        for path in re.findall(r"(?:-f|-k|--config|--file) (deploy/\S+)", line):
            assert "…" in path or (ROOT / path).exists(), f"{page.name}: {line}"
