"""ONNX sessions use the GPU where one can be used, and say so where it cannot; the GPU build of the runtime is faked."""

import logging

import onnxruntime as ort
import pytest

from lodestone.models import session as sessions


class _Session:
    def __init__(self, path, sess_options, providers):
        self.asked = providers

    def get_providers(self):
        return ["CPUExecutionProvider"]


@pytest.fixture
def gpu_build(monkeypatch):
    preloaded = []
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    monkeypatch.setattr(ort, "preload_dlls", lambda: preloaded.append(True))
    monkeypatch.setattr(ort, "InferenceSession", _Session)
    return preloaded


def test_without_a_gpu_nothing_of_cuda_is_touched(monkeypatch, gpu_build, tmp_path, caplog):
    monkeypatch.setattr(sessions, "gpus", lambda: 0)
    with caplog.at_level(logging.WARNING):
        assert sessions.open_session(tmp_path / "a.onnx").asked == ["CPUExecutionProvider"]
    assert not gpu_build
    assert not caplog.records


def test_a_gpu_that_cannot_be_used_is_reported(monkeypatch, gpu_build, tmp_path, caplog):
    monkeypatch.setattr(sessions, "gpus", lambda: 1)
    with caplog.at_level(logging.WARNING):
        asked = sessions.open_session(tmp_path / "a.onnx").asked
    assert asked == [("CUDAExecutionProvider", {"cudnn_conv_algo_search": "HEURISTIC"}), "CPUExecutionProvider"]
    assert gpu_build == [True]
    assert "cannot use the GPU, and runs a.onnx on the CPU" in caplog.text


def test_a_gpu_in_use_is_no_news(monkeypatch, gpu_build, tmp_path, caplog):
    monkeypatch.setattr(sessions, "gpus", lambda: 1)
    monkeypatch.setattr(_Session, "get_providers", lambda self: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    with caplog.at_level(logging.WARNING):
        sessions.open_session(tmp_path / "a.onnx")
    assert not caplog.records
