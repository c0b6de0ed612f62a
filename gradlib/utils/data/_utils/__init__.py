"""The parts that a DataLoader is made of."""

from . import collate, fetch, pin_memory

__all__ = ["collate", "fetch", "pin_memory"]
