"""Extrema: max, min, amax, amin, aminmax, argmax, argmin."""

from __future__ import annotations

from ..core.op import declare
from .reduce import kept

