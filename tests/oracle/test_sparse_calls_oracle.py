"""The lines of sparse_calls.txt, evaluated with PyTorch and with gradlib: layouts, dtypes, sizes, values and texts.

A line is one expression, or statements before one, separated by "; ".
"""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradlib

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's, about sparse tensors
LINES = (Path(__file__).parent / "sparse_calls.txt").read_text().splitlines()
ABOUT = 7  # values of a tensor that is made


def names_of(library: Any) -> dict[str, Any]:
    """What a line finds: `t` is the library; coo, csr, csc, bsr and dense make the same tensors in both."""

    def dense(*shape, dtype="float64", seed=1, rg=False):
        draw = np.random.default_rng(seed)
        values = draw.normal(size=shape)
        if "complex" in dtype:
            values = values + 1j * draw.normal(size=shape)
        made = library.tensor(values).to(getattr(library, dtype))
        return made.requires_grad_() if rg else made

    def coo(dtype="float64", rg=False, dup=False, hyb=False, sh=(4, 6), seed=0, empty=False):
        draw = np.random.default_rng(seed)
        places = draw.integers(0, [[sh[0]], [sh[1]]], (2, 0 if empty else ABOUT))
        places = places if dup else np.unique(places, axis=1)
        values = draw.normal(size=(places.shape[1], 3) if hyb else places.shape[1])
        if "complex" in dtype:
            values = values + 1j * draw.normal(size=values.shape)
        if "int" in dtype:
            values = np.round(values * 5)
        values = library.tensor(values).to(getattr(library, dtype))
        s = library.sparse_coo_tensor(library.tensor(places), values, (*sh, 3) if hyb else sh)
        s = s if dup else s.coalesce()
        return s.detach().requires_grad_() if rg else s

    def made_by(convert):
        return lambda rg=False, **given: convert(coo(**given)).requires_grad_(rg)

    return {
        "t": library, "np": np, "F": library.nn.functional, "copy": copy, "pickle": pickle, "io": io,
        "coo": coo, "dense": dense, "csr": made_by(lambda s: s.to_sparse_csr()),
        "csc": made_by(lambda s: s.to_sparse_csc()),
        "bsr": made_by(lambda s: s.to_dense().to_sparse_bsr((2, 3))),
    }  # fmt: skip


def plain(value: Any) -> Any:
    """A result as data: of a tensor its layout, dtype, whether it requires grad, and its numbers."""
    if isinstance(value, (torch.Tensor, gradlib.Tensor)):
        numbers = value.detach().to_dense().resolve_conj()
        numbers = numbers.float() if str(value.dtype).endswith("bfloat16") else numbers
        return [str(value.layout), str(value.dtype), value.requires_grad, numbers.numpy()]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if isinstance(value, (bool, int, float)) else str(value)


def evaluated(library: Any, line: str) -> Any:
    names = names_of(library)
    *before, last = line.split("; ")
    exec("\n".join(before), names)
    return plain(eval(last, names))


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, np.ndarray):
        return ours.shape == theirs.shape and np.allclose(ours, theirs, 1e-5, 1e-7, equal_nan=True)
    if isinstance(theirs, list):
        pairs = zip(ours, theirs, strict=False)
        return (
            isinstance(ours, list)
            and len(ours) == len(theirs)
            and all(same(a, b) for a, b in pairs)
        )
    return ours == pytest.approx(theirs) if isinstance(theirs, float) else ours == theirs


@pytest.mark.parametrize("line", LINES)
def test_a_line_gives_what_it_gives_on_pytorch(line):
    theirs = evaluated(torch, line)
    ours = evaluated(gradlib, line)
    assert same(ours, theirs), f"{ours}\nand on PyTorch\n{theirs}"
