"""Random words in one launch (`kernels/random.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import blocks_for, family
from .dropout import advance

MODULE = family("random", philox_words=[()])


def words(xp: Any, state: Any, count: int) -> Any:
    """`count` words of `gradlib.devices.cuda.philox.words`; `state` moves on."""
    out = xp.empty(count, np.uint32)
    if count:
        threads = -(-count // 4)
        grid = blocks_for(threads)
        MODULE.launch(xp, ("philox_words",), grid, 256, out, state, np.int64(count))
        advance(xp, state, threads)
    return out
