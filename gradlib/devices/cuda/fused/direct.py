"""Elementwise kernels called without detours, for what most calls are: arrays whose elements lie side by side.

Making an array and launching a kernel are all that the host has to do for an elementwise op; looking at dtypes, layouts
and attributes on the way took longer than both. So a function is written out for each traced formula (`Kernel` in
`pointwise.py`), as the code of ops is (`gradlib/op/write.py`): it tests whether its arguments are dense arrays of one
shape and dtype, or one of them a single element, makes the results and launches. Anything else goes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import indent
from typing import Any

import numpy as np

from ....op.write import DENSE as ROW_MAJOR
from ....op.write import QUICK
from ..kernels import Module, instance, launcher_of, pack_size
from .generate import DENSE, ONE, Generated

THREADS = 256
BY_LETTER = {np.dtype(letter) for letter in "efd"}  # what CuPy makes of these letters


class _Form:
    """The kernel for one way in which the arguments lie in memory, on each device."""

    def __init__(self, xp: Any, module: Generated, dtype: np.dtype):
        self.xp, self.module, self.name = xp, module, instance(module.name, dtype)
        self.on_device: dict[int, Callable] = {}

    def first(self, device: int) -> Callable:
        """The launch on `device`, which is current, when it is asked for the first time."""
        launcher: Any = launcher_of(self.xp)
        found = self.on_device[device] = launcher.linear(self.module, self.name)
        return found


def possible(xp: Any) -> bool:
    """Whether the launcher of a backend is CuPy's own."""
    return hasattr(launcher_of(xp), "linear")


def launch_of(xp: Any, module: Module, *kernel: Any) -> Callable:
    """CuPy's own launch of an instance of a kernel on the current device, given as `Module.launch` takes it."""
    launcher: Any = launcher_of(xp)
    return launcher.linear(module, instance(*kernel))


def write(
    xp: Any,
    module_of: Callable[[dict[str, str]], Generated],
    order: Sequence[str],
    used: Sequence[str],
    gives: Sequence[bool] | None,
    dtype: np.dtype,
    otherwise: Callable[..., Any],
) -> Callable[..., Any]:
    """A function of the raw values named in `order`, of the first of which it is known that its dtype is `dtype`.

    Args:
        xp: the backend of the arrays.
        module_of: the generated kernel for the places of the arguments by name.
        order: names of the values; the results have the shape of the first, or are broadcast with it (`gives` None).
        used: the names that the kernel takes, in its order.
        gives: which places of the tuple that is returned have a result; the others are None. None: one bare array.
        dtype: of all arrays and results.
        otherwise: called with the same values where they do not fit.
    """
    first, rest = used[0], used[1:]
    forms = [dict.fromkeys(used, DENSE)]
    forms += [forms[0] | {name: ONE} for name in (used if gives is None else rest) if rest]
    found = [_Form(xp, module_of(form), dtype) for form in forms]
    arrays = xp.xp.ndarray
    dense = QUICK if hasattr(arrays, QUICK) else ROW_MAJOR
    leave = f"return otherwise_({', '.join(order)})"
    lines = [f"if {' or '.join(f'{n}.__class__ is not array_' for n in used)}: {leave}"]
    lines.append(f"shape_ = {first}.shape")  # CuPy makes the tuple anew each time
    for i, form in enumerate(forms):
        moving = [n for n, place in form.items() if place == DENSE]
        tests = [f"{n}.dtype is {first}.dtype" for n in rest]
        tests += [f"{n}.{dense}" for n in moving]
        tests += [f"not {n}.ndim" for n in used if n not in moving]
        shape = "shape_" if moving[0] == first else f"{moving[0]}.shape"
        tests += [f"{n}.shape == {shape}" for n in moving[1:]]
        other = "" if moving[0] == first else f"; shape_ = {shape}"
        lines.append(f"{'elif' if i else 'if'} {' and '.join(tests)}: form_ = form{i}_{other}")
    parts = getattr(
        xp.empty, "parts", None
    )  # a call less for each result, and CuPy reads letters soonest
    made = "{0} = empty_(shape_, dtype_)"
    if parts is not None:
        known = repr(dtype.char) if dtype in BY_LETTER else "dtype_"
        made = f"{{0}} = begin_(array_); start_({{0}}, shape_, {known}, None, None, 'C')"
    outs = [f"out{i}_" for i in range(1 if gives is None else sum(gives))]
    threads = f"-(-n_ // {pack_size(dtype)})" if found[0].module.several else "n_"
    lines += [
        f"else: {leave}",
        *(made.format(out) for out in outs),
        "n_ = out0_.size",
        "if n_:",
        "    device_ = current_()",
        "    launch_ = form_.on_device.get(device_) or form_.first(device_)",
        f"    launch_({threads}, ({''.join(f'{v}, ' for v in (*used, *outs))}counts_[n_]), 0, {THREADS})",
    ]
    results = iter(outs)
    given = "out0_"
    if gives is not None:
        given = f"({''.join(f'{next(results) if g else None}, ' for g in gives)})"
    text = f"def direct({', '.join(order)}):\n" + indent(
        "\n".join([*lines, f"return {given}"]), "    "
    )
    launcher: Any = launcher_of(xp)
    space = {
        "array_": arrays, "empty_": xp.empty, "dtype_": dtype, "otherwise_": otherwise,
        "current_": xp.current_device, "counts_": launcher.counts,
        **dict(zip(("begin_", "start_"), parts or ())),
        **{f"form{i}_": form for i, form in enumerate(found)},
    }  # fmt: skip
    exec(text, space)
    return space["direct"]
