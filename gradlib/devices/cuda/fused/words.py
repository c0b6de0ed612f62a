"""Random words in one launch (`kernels/random.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import blocks_for, family, launcher_of
from .dropout import MODULE as DROPOUT

MODULE = family("random", ["philox_words"])


def words(xp: Any, state: Any, count: int) -> Any:
    """`count` words of `gradlib.devices.cuda.philox.words`; `state` moves on."""
    out = xp.empty(count, np.uint32)
    if count:
        threads = -(-count // 4)
        launch = launcher_of(xp).launch
        launch(MODULE, "philox_words", blocks_for(threads), 256, (out, state, np.int64(count)))
        launch(DROPOUT, "philox_advance", 1, 1, (state, np.uint64(threads)))
    return out
