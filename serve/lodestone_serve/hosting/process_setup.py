"""Set-up of a process of the service on one machine: its logs, its warnings and the threads of its linear algebra."""

from __future__ import annotations

import logging
import os
import warnings

from lodestone.config.settings import Settings
from lodestone_serve.inference.blas import BLAS_ENVIRONMENT, one_blas_thread
from lodestone_serve.telemetry.logs import LOG_NAME, log_to


def prepare_process(settings: Settings, *, log: str = LOG_NAME) -> None:
    """Set up logs, warnings and threads of this process and of those that it starts.

    Args:
        settings: Settings of the home.
        log: Name of the log's file in the home's folder of logs.
    """
    for name, value in BLAS_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    one_blas_thread()
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")  # about minor faults in pictures' metadata
    log_to(settings.home / "logs", settings.log_level, name=log, on_stderr=settings.serve.telemetry.json_logs)
    # Below errors, uvicorn tells what clients do to its connections.
    server = logging.getLogger("uvicorn.error")
    server.handlers, server.propagate = logging.getLogger("lodestone").handlers, False
    server.setLevel(logging.ERROR)
