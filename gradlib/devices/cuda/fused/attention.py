"""scaled_dot_product_attention without a matrix of probabilities (`kernels/attention.cu`)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ....tape.layout import empty_ordered, order_of
from ..kernels import F4, F8, FLOATS, HALVES, blocks_for, family, launcher_of
from . import forward, paths, vjp

HEADS = (64, 128)
KINDS = [(dtype, head) for dtype in FLOATS for head in HEADS if dtype != F8 or head == 64]
KERNELS = ("attention", "attention_dq", "attention_dkv")
MODULE = family("attention", **dict.fromkeys(KERNELS, KINDS))
LAYOUT = np.dtype(
    [("inner", "i8"), *((name, "i8", 3) for name in (*"qkvg", "out")), ("mask", "i8", 4),
     *((name, "i4") for name in ("length", "keys", "width", "values", "causal", "mask_kind")), ("scale", "f8")]
)  # fmt: skip
OWN, OTHER = 64, 32  # as in kernels/attention.cu
MOST_SHARED = 227 * 1024  # bytes of shared memory of a block (sm_90)
MOST_TILES = 65535  # of the second dimension of a grid


@lru_cache
def _most_shared(cupy: Any, device: int) -> int:
    """Bytes of shared memory that a block may ask for."""
    found = getattr(cupy.cuda.Device(device), "attributes", {})  # a simulated device has none
    return found.get("MaxSharedMemoryPerBlockOptin", MOST_SHARED)


def _plain(xp: Any, array: Any, lead: tuple) -> Any:
    """The array as (outer, inner, rows, columns), columns side by side; a view where its layout allows it."""
    if array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        array = xp.ascontiguousarray(array)
    inner = lead[-1] if lead else 1
    return array.reshape(math.prod(lead[:-1]), inner, *array.shape[-2:])


def _strides(array: Any) -> list[int]:
    """Strides of outer, inner and rows in elements."""
    return [s // array.itemsize for s in array.strides[:3]]


class _Call:
    """Arguments that all three kernels take, and how they are launched."""

    def __init__(self, xp: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float):
        self.xp, self.lead, self.dtype = xp, q.shape[:-2], q.dtype
        self.batches, (self.length, self.width) = math.prod(self.lead), q.shape[-2:]
        self.keys, self.values = v.shape[-2:]
        self.wide = F4 if q.dtype in HALVES else q.dtype
        self.head = HEADS[max(self.width, self.values) > HEADS[0]]
        how = np.zeros(1, LAYOUT)
        self.arrays = [_plain(xp, a, self.lead) for a in (q, k, v)]
        for name, array in zip("qkv", self.arrays, strict=True):
            how[name] = _strides(array)
        if mask is not None:
            mask = xp.broadcast_to(mask, (*self.lead, self.length, self.keys))
            inner = self.lead[-1] if self.lead else 1
            mask = mask.reshape(math.prod(self.lead[:-1]), inner, *mask.shape[-2:])
            how["mask"] = [s // mask.itemsize for s in mask.strides]
            how["mask_kind"] = 1 if mask.dtype.kind == "b" else 2
        how["inner"], how["causal"], how["scale"] = (self.lead or (1,))[-1], causal, scale
        for name in ("length", "keys", "width", "values"):
            how[name] = getattr(self, name)
        self.arrays.append(mask)
        self.how = how

    def empty(self, rows: int, columns: int) -> Any:
        return self.xp.empty((*self.lead, rows, columns), self.dtype)

    def shared(self, both: bool) -> int:
        """Bytes of dynamic shared memory, for blocks that own rows of one matrix or of both."""
        half, size = self.dtype in HALVES, 16 // self.dtype.itemsize
        quantum, extra = (16, 8) if half else (2 * size, size)
        width, values = (-(-n // quantum) * quantum + extra for n in (self.width, self.values))
        stages = 2 if half else 1  # the next rows of the other side come while the last are used
        own, other = (width + values if both else width) * OWN, (width + values) * OTHER * stages
        box = 0 if half else OWN * (OTHER + size)
        return (own + other + box) * self.dtype.itemsize

    def fits(self, both: bool) -> bool:
        """Whether the device has so much shared memory; some have less than half of what others have."""
        cupy = getattr(launcher_of(self.xp), "cupy", None)
        if cupy is None:
            return self.shared(both) <= MOST_SHARED
        most = _most_shared(cupy, cupy.cuda.runtime.getDevice())
        return self.shared(both) <= most

    def launch(self, kernel: str, rows: int, *args: Any, both: bool) -> None:
        """Run a kernel with blocks that own `rows`, of one matrix or of both."""
        grid, threads = (self.batches, blocks_for(rows, OWN)), 128 if self.dtype in HALVES else 256
        how = (self.xp, (kernel, self.dtype, self.head), grid, threads)
        MODULE.launch(*how, *self.arrays, *args, self.how, shared=self.shared(both))

    def forward(self) -> tuple:
        """(result, logarithms of sums)."""
        query = self.arrays[0]
        shape = (*query.shape[:2], self.length, self.values)
        # in the order of strides of the queries: heads that lie beside each other stay so
        out = empty_ordered(self.xp, shape, self.dtype, order_of((query,), shape))
        lse = self.xp.empty((*self.lead, self.length), self.wide)
        self.how["out"] = _strides(out)
        if lse.size:
            self.launch("attention", self.length, out, lse, both=False)
        return out.reshape(*self.lead, *shape[2:]), lse


def _fit(q: Any, k: Any, v: Any, mask: Any) -> bool:
    """Whether the kernels take these arrays."""
    widths = (q.shape[-1], v.shape[-1])
    return bool(
        q.dtype in FLOATS
        and q.dtype == k.dtype == v.dtype
        and min(widths) > 0
        and max(widths) <= (HEADS[0] if q.dtype == F8 else HEADS[1])
        and max(q.shape[-2], k.shape[-2]) <= MOST_TILES * OWN
        and (mask is None or mask.dtype.kind == "b" or mask.dtype == q.dtype)
    )


def _call(xp: Any, both: bool, query: Any, key: Any, value: Any, mask: Any, *how: Any) -> Any:
    """The call of the kernel, of which a block owns rows of one matrix or of both; None if it is not to be taken."""
    fits = _fit(query, key, value, mask)
    call = _Call(xp, query, key, value, mask, *how) if fits else None
    case = paths.Attention(fits, call is not None and call.fits(both))
    return call if paths.way("attention", case) == "kernel" else None


@forward("scaled_dot_product_attention_op")
def attention(xp, query, key, value, attn_mask=None, *, is_causal, scale):
    call = _call(xp, False, query, key, value, attn_mask, is_causal, scale)
    return NotImplemented if call is None else call.forward()


@vjp("scaled_dot_product_attention_op")
def attention_vjp(F, g, query, key, value, attn_mask, result, logsumexp, is_causal, scale, needs):
    if needs[3]:
        return NotImplemented  # the gradient of a mask is a matrix of its own
    xp = F.backend
    call = _call(xp, True, query, key, value, attn_mask, is_causal, scale)
    if call is None:
        return NotImplemented
    g, out = (_plain(xp, a, call.lead) for a in (g, result))
    lse = xp.ascontiguousarray(logsumexp)
    call.how["g"], call.how["out"] = _strides(g), _strides(out)
    dq = call.empty(call.length, call.width) if needs[0] else None
    dk = call.empty(call.keys, call.width) if needs[1] else None
    dv = call.empty(call.keys, call.values) if needs[2] else None
    delta = xp.empty(lse.shape, call.wide)
    if lse.size:
        call.launch("attention_dq", call.length, g, out, lse, delta, dq, both=True)
    if call.batches and call.keys and (dk is not None or dv is not None):
        call.launch("attention_dkv", call.keys, g, lse, delta, dk, dv, both=True)
    return dq, dk, dv, None
