"""Tools around training: `gradlib.utils.data` and others."""

from gradlib.utils import data

__all__ = ["data"]
