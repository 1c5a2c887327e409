"""The image's Dockerfile is clean, and installs what exists."""

from __future__ import annotations

import re

from scripts import check_manifests
from scripts.manifests.overlays import ROOT


def test_the_dockerfile_is_clean() -> None:
    assert check_manifests.lint_dockerfile() == []


def test_the_image_has_both_targets_and_installs_extras_that_exist() -> None:
    import tomllib

    text = check_manifests.DOCKERFILE.read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    installed = {name for found in re.findall(r"'\.\[([\w,]+)\]'", text) for name in found.split(",")}

    assert {"cpu", "gpu"} <= set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
    assert installed <= extras.keys() and {"postgres", "clip", "diffusers"} <= installed
    assert re.search(r"^USER 1000:1000$", text, re.MULTILINE)
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11\.\d+-slim-\w+$", text, re.MULTILINE)


def test_the_builder_is_sent_what_the_image_copies() -> None:
    text = check_manifests.DOCKERFILE.read_text(encoding="utf-8")
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for name in line.split()}

    assert {name.partition("/")[0] for name in copied - {"."}} <= sent  # a folder that is sent is sent whole
    assert all((ROOT / name).exists() for name in sent)
