"""Switches of the process that kernels and allocation ask for."""

from __future__ import annotations


class Switches:
    """What holds for all kernels. deterministic: only those whose results are the same bits in every run.

    cudnn: whether it may be used; cudnn_deterministic: the same as deterministic, for what it computes.
    """

    deterministic = False
    cudnn = True
    cudnn_deterministic = False
    fill_memory = True  # in which case new memory is filled, too: see gradlib.utils.deterministic


switches = Switches()
