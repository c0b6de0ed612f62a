"""kernels/random.cu: the words of the array formula."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.devices.cuda import philox
from gradlib.devices.cuda.fused.words import words
from gradlib.devices.numpy.namespace import backend as numpy_backend


@pytest.mark.parametrize("count", [0, 1, 4, 31, 2050])
def test_words(device, count):
    # rows: DEV-26
    for seed, counter in ((0, 0), (2**64 - 3, 2**32 - 1)):
        state = np.array([seed, counter], np.uint64)
        wanted = philox.words(numpy_backend, state, count)
        here = device.asarray(np.array([seed, counter], np.uint64))
        assert (np.asarray(words(device, here, count)) == wanted).all()
        assert np.asarray(here).tolist() == state.tolist()
