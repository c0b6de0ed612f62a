"""capture: a step that is called again and again is written down once, and replayed without Python's part."""

from .steps import Captured, Finding, capture, explain

__all__ = ["Captured", "Finding", "capture", "explain"]
