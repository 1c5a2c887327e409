"""Multiplications in the processes of a local service have one thread, unless the user sets more."""

from __future__ import annotations

import os
from typing import Any

import pytest
import ray

from lodestone_serve.hosting.local_ray import local_ray


@pytest.mark.parametrize(("set_by_user", "inherited"), [(None, "1"), ("2", "2")])
def test_multiplications_of_a_service_have_one_thread_unless_the_user_sets_more(
    set_by_user: str | None, inherited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ})
    os.environ.pop("OPENBLAS_NUM_THREADS", None)
    if set_by_user is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = set_by_user
    seen: list[str] = []

    def init(**_: Any) -> None:
        seen.append(os.environ["OPENBLAS_NUM_THREADS"])

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with local_ray():
        pass
    assert seen == [inherited]


def test_a_proxy_may_take_as_long_to_start_as_the_service_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.serve._private.constants import HTTP_PROXY_TIMEOUT

    name = "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"
    monkeypatch.setattr(os, "environ", {key: value for key, value in os.environ.items() if key != name})
    seen: list[float] = []
    monkeypatch.setattr(ray, "init", lambda **_: seen.append(float(os.environ[name])))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with local_ray():
        pass
    assert seen == [HTTP_PROXY_TIMEOUT]
