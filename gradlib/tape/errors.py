"""Error texts that users of PyTorch know, with the user's own lines added."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from . import source
from .node import AccumulateGrad

INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
)
INFERENCE_INPLACE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
    "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
)
UNPACKED_OUTSIDE = (
    "inside vmap, an unpack hook has to return the tensor that was packed, or one made of that: it returned a tensor "
    "that is no entry of the batch, or one where all entries shared a value"
)
PACK_MODIFIES = (
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
    "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you need "
    "to perform in-place operations on the input to a pack hook."
)
SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)
LEAF_INPLACE = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF_INPLACE = (
    "a view of a leaf Variable that requires grad is being used in an in-place operation."
)
OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


PARTIAL_OVERLAP = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)

# inside vmap
ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, "
    "please try to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch "
    "internals, please file a bug report."
)
BRANCH = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that "
    "yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
)


def size(shape) -> str:
    """[2, 3] as PyTorch prints sizes in messages."""
    return "[" + ", ".join(map(str, shape)) + "]"


def type_name(value) -> str:
    """The type of a value as messages about arguments name it: int, Tensor, numpy.ndarray."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def tangent_size(shape, tangent) -> str:
    return (
        "Trying to set a forward gradient that has a different size than that of the original "
        f"Tensor, this is not supported. Tensor is of size {size(shape)} while the given forward "
        f"gradient is of size {size(tangent)}."
    )


def tensor_type(tensor) -> str:
    """The name of its type in PyTorch: ``torch.FloatTensor``, ``torch.cuda.FloatTensor``."""
    place = "" if tensor.is_cpu else tensor.device.type + "."
    if tensor.is_sparse:
        place += "sparse."
    return f"torch.{place}{tensor.dtype.tensor_type}"


def type_and_size(tensor) -> str:
    return f"[{tensor_type(tensor)} {size(tensor.shape)}]"


def maker(node) -> str:
    """The name of the function that made a tensor: ``Mul`` for a MulBackward0."""
    name = node.name()
    return name[: name.rindex("Backward")] if "Backward" in name else name


def second_backward(node) -> str:
    site = node.site
    return (
        SECOND_BACKWARD
        if site is None
        else f"{SECOND_BACKWARD}\n  {node.name()} was made at {source.describe(site)}"
    )


def blame(exc: BaseException, hook) -> None:
    """Let an exception remember the hook that it comes from, so that `note` can name it."""
    if not hasattr(exc, "__gradlib_hook__"):  # in a pass inside the hook: that one's
        _remember(exc, "__gradlib_hook__", hook)


def _remember(exc: BaseException, name: str, value) -> None:
    try:
        setattr(exc, name, value)
    except AttributeError:  # an exception with slots
        pass


def note(exc: BaseException, node) -> None:
    """Tell in the traceback what failed: the backward of which forward line, the hook of what, or which leaf."""
    if getattr(exc, "__gradlib_noted__", False):
        return

    hook = getattr(exc, "__gradlib_hook__", None)
    if isinstance(node, AccumulateGrad):
        leaf = node.variable
        act, where = "at", f"a leaf of shape {list(leaf.shape)} and dtype {leaf.dtype}"
    elif node.site is not None:
        act = "in the backward of"
        where = f"{node.name()}, which was made at {source.describe(node.site)}"
    else:
        return
    exc.add_note(f"raised {act if hook is None else f'in {_described(hook)} of'} {where}")
    _remember(exc, "__gradlib_noted__", True)


def _described(hook) -> str:
    """A hook by its name, and the place of the function if it is one."""
    name = getattr(hook, "__name__", type(hook).__name__)
    code = getattr(hook, "__code__", None)
    return (
        f"hook {name}"
        if code is None
        else f"hook {name} ({code.co_filename}:{code.co_firstlineno})"
    )


def broadcast(a, b) -> RuntimeError | None:
    """The error for two shapes that do not broadcast, or None if they do."""
    n = max(len(a), len(b))
    for i in range(1, min(len(a), len(b)) + 1):
        if a[-i] != b[-i] and a[-i] != 1 and b[-i] != 1:
            return RuntimeError(
                f"The size of tensor a ({a[-i]}) must match the size of tensor b ({b[-i]}) at non-singleton "
                f"dimension {n - i}"
            )
    return None


def check_broadcast(a, b) -> None:
    """RuntimeError for two shapes that do not broadcast."""
    wrong = broadcast(a, b)
    if wrong is not None:
        raise wrong


# NumPy's classes of errors in ufuncs are private, and all called UFuncTypeError: their qualified names differ.
# CuPy has none.


def no_kernel(exc: BaseException) -> bool:
    """Whether a ufunc has no kernel for the dtypes that it was given."""
    return type(exc).__qualname__ == "_UFuncNoLoopError"


def wrong_out(exc: BaseException) -> bool:
    """Whether a ufunc's result cannot be cast to the dtype of the array it is written to."""
    return type(exc).__qualname__ == "_UFuncOutputCastingError"


def allocation(exc: Exception, shape=None, itemsize: int = 0) -> RuntimeError | None:
    """PyTorch's error for an array that NumPy could not make, or None if something else went wrong.

    shape, itemsize: of the array that was asked for, if the exception does not know.
    """
    text = str(exc)
    if isinstance(exc, MemoryError):
        wanted: Any = exc
        if hasattr(exc, "shape") and hasattr(exc, "dtype"):
            shape, itemsize = wanted.shape, wanted.dtype.itemsize
        elif shape is None:
            return RuntimeError("DefaultCPUAllocator: can't allocate memory")
    elif isinstance(exc, ValueError) and ("too big" in text or "Maximum allowed" in text):
        if shape is None:
            return RuntimeError("Storage size calculation overflowed")
    else:
        return None
    count = prod(shape) * itemsize
    if count >= 2**63:
        return RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    return RuntimeError(
        f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {count} bytes. Error code 12 (Cannot "
        "allocate memory)"
    )


LARGE = 1 << 30


def check_room(xp, shape, itemsize: int) -> None:
    """RuntimeError for a result that the memory of `xp` cannot hold, before time is spent on the way to it."""
    size = prod(shape) * itemsize
    if size < LARGE or (xp.name != "numpy" and size < 2**63):
        return
    try:
        np.empty(
            tuple(shape), f"V{itemsize}"
        )  # takes address space, and no memory until it is written to
    except (MemoryError, ValueError) as exc:
        wrong = allocation(exc, shape, itemsize)
        if wrong is not None:
            raise wrong from None
        raise


# The types of elements as messages about kernels name them.
C_TYPES = {
    "int64": "long int", "int32": "int", "int16": "short", "int8": "signed char", "uint8": "unsigned char",
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
