"""ONNX Runtime sessions: on CUDA where there is one, with a set number of threads and no spinning.

This module imports ONNX Runtime: import it where a model is loaded, not before.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as native

from lodestone.errors import ModelUnavailableError
from lodestone.models.hardware import gpus

_CUDA: Final = "CUDAExecutionProvider"
# The exhaustive search, ONNX Runtime's default, tries all algorithms again for each new batch size.
_CUDA_OPTIONS: Final = {"cudnn_conv_algo_search": "HEURISTIC"}
_log = logging.getLogger(__name__)
_CANNOT_LOAD: tuple[type[Exception], ...] = (
    native.Fail,
    native.InvalidArgument,
    native.InvalidGraph,
    native.InvalidProtobuf,
    native.NoSuchFile,
    native.NotImplemented,
    native.RuntimeException,
)


def open_session(path: Path, *, threads: int = 0) -> ort.InferenceSession:
    """Load an ONNX file with all graph optimisations.

    Args:
        path: The ONNX file.
        threads: Threads inside one operator; 0 for ONNX Runtime's choice (one per physical core). With 1, a pass runs on the
            calling thread: several callers then share the cores without waiting for each other.

    Raises:
        ModelUnavailableError: this ONNX Runtime cannot load the file.
    """
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Spinning threads would take CPU time from decoding and from the run's other model.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = _providers()
    try:
        session = ort.InferenceSession(str(path), sess_options=options, providers=providers)
    except _CANNOT_LOAD as error:
        raise ModelUnavailableError(
            f"ONNX Runtime {ort.__version__} cannot load {path}: {error}",
            hint="delete the file, so that it is converted again, or install a newer onnxruntime",
        ) from error
    if len(providers) > 1 and _CUDA not in session.get_providers():
        _log.warning(
            "ONNX Runtime %s cannot use the GPU, and runs %s on the CPU: it needs CUDA and cuDNN of the versions that it was "
            "built for, see docs/models.md",
            ort.__version__,
            path.name,
        )
    return session


def runs_on_gpu() -> bool:
    """Return whether this ONNX Runtime was built for GPUs; the usual package was not."""
    return _CUDA in ort.get_available_providers()


def _providers() -> list[Any]:
    available = ort.get_available_providers()
    if _CUDA not in available or not gpus():
        return ["CPUExecutionProvider"]
    ort.preload_dlls()  # CUDA's libraries, as the wheels of torch and of Nvidia install them
    return [(_CUDA, _CUDA_OPTIONS), "CPUExecutionProvider"]
