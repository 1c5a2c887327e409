"""Where does the service write what happens? JSON lines in the home's logs folder, rotated; nothing on the terminal."""

from __future__ import annotations

import logging
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path

import structlog

LOG_NAME = "service.log"
_MAX_BYTES = 5 * 2**20
_KEPT = 3


def log_to(folder: Path, level: str) -> None:
    """Send this process's Lodestone logs (structlog and `logging` alike) to `folder`/service.log.

    Args:
        folder: Made when missing.
        level: `debug`, `info`, `warning` or `error`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_traceback),
    ]
    handler = RotatingFileHandler(folder / LOG_NAME, maxBytes=_MAX_BYTES, backupCount=_KEPT, encoding="utf-8", delay=True)
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


def _traceback(exc_info: structlog.typing.ExcInfo) -> str:
    # Not structlog's own formatter: it goes through `print`, which Serve replaces in its replicas by one that garbles it.
    return "".join(traceback.format_exception(*exc_info))
