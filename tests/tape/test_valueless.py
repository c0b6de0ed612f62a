"""Arrays that stand for others, whose values are elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.tape.valueless import Valueless, stand_in

LAYOUTS = {
    "rows": np.zeros((3, 4)),
    "columns": np.zeros((3, 4), "f4").T,
    "backwards": np.zeros((3, 4), "i8")[::-1, ::2],
    "nothing": np.zeros((3, 0, 2), "f2")[:, :, ::-1],
    "nothing backwards": np.zeros((0, 3))[::-1],
    "one": np.zeros((), "c8"),
    "repeated": np.broadcast_to(np.zeros(3, bool), (1000, 3)),
    "large": np.zeros((300, 40))[::-1],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_memory_of_a_stand_in_is_its_own(name):
    array = LAYOUTS[name]
    found = stand_in(array)
    assert (found.shape, found.strides, found.dtype) == (array.shape, array.strides, array.dtype)
    whole = found
    while whole.base is not None:
        whole = whole.base
    low, high = np.lib.array_utils.byte_bounds(found)
    first, last = np.lib.array_utils.byte_bounds(whole)
    assert not found.size or first <= low <= high <= last
    with pytest.raises(RuntimeError, match="needs the values of an array that has none"):
        found.view(Valueless).sum()
