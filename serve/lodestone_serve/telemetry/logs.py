"""Logs of the service: JSON lines, in rotated files of the home's logs folder or on standard error."""

from __future__ import annotations

import logging
import sys
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from lodestone_schemas.redaction import hide_secrets
from lodestone_serve.telemetry.tracing import trace_id

LOG_NAME = "service.log"
_MAX_BYTES = 5 * 2**20
_KEPT = 3


def log_to(folder: Path, level: str, *, name: str = LOG_NAME, on_stderr: bool = False) -> None:
    """Send this process's Lodestone logs (structlog and `logging` alike) to a file in `folder`.

    Args:
        folder: Folder of the file, made when missing.
        level: `debug`, `info`, `warning` or `error`.
        name: Name of the file. Processes that write to one file lose lines to each other when it is rotated.
        on_stderr: Write to standard error instead, where containers' logs are collected; nothing is written to `folder`.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace,
        structlog.processors.ExceptionRenderer(_traceback),
        hide_secrets,  # last, when exceptions are text
    ]
    handler = logging.StreamHandler(sys.stderr) if on_stderr else _file(folder / name)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()],
        )
    )
    logger = logging.getLogger("lodestone")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level.upper())
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _file(path: Path) -> logging.Handler:
    path.parent.mkdir(parents=True, exist_ok=True)
    return RotatingFileHandler(path, maxBytes=_MAX_BYTES, backupCount=_KEPT, encoding="utf-8", delay=True)


def _add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    if current_trace := trace_id():
        event["trace_id"] = current_trace
    return event


def _traceback(exc_info: structlog.typing.ExcInfo) -> str:
    # Not structlog's own formatter: it uses `print`, which Serve replaces in its replicas by one that garbles the text.
    return "".join(traceback.format_exception(*exc_info))
