"""Switches of the process that kernels and allocation ask for."""

from __future__ import annotations


class Switches:
    """What holds for all kernels. deterministic: only those whose results are the same bits in every run."""

    deterministic = False
    fill_memory = True  # in which case new memory is filled, too: see gradlib.utils.deterministic


switches = Switches()
