"""The parts that a DataLoader is made of."""

from gradlib.utils.data._utils import collate, fetch, pin_memory, worker

__all__ = ["collate", "fetch", "pin_memory", "worker"]
