"""Loggers of programs that are launched."""

from __future__ import annotations

import logging
import os
import sys

from ...._refused import refuse

__all__ = ["get_logger"]

__getattr__ = refuse(__name__, whole=True)


def get_logger(name: str | None = None) -> logging.Logger:
    """A logger whose level ``LOGLEVEL`` sets.

    Args:
        name: None for the module of the caller.

    Example:
        >>> from gradlib.distributed.elastic.utils.logging import get_logger
        >>> get_logger("my_program").name
        'my_program'
    """
    if name is None:
        name = sys._getframe(1).f_globals.get("__name__", "unknown")
    logger = logging.getLogger(name)
    logger.setLevel(os.environ.get("LOGLEVEL", "WARNING"))
    return logger
