"""How a tensor is pickled by itself and deep-copied: Tensor.__reduce_ex__ and Tensor.__deepcopy__."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np

from ..operators.sparse.base import moved
from ..operators.sparse.make import copied as copied_sparse
from ..tape import dtypes
from ..tape.device import copied
from ..tape.lazy import bits_of, is_lazy, physical_of, raw_values, wrap
from ..tape.memory import bytes_needed, dense_bytes, flat_bytes, owner, view_of
from ..tape.sparse import Sparse, is_sparse
from ..tape.tensor import Tensor, to_host
from ..tape.untyped import UntypedStorage, storage_of
from . import _names as names
from ._storages import address, span, strides_of


def attributes_of(tensor: Tensor) -> dict[str, Any]:
    """What the user has set on the tensor, by name; what the graph keeps there is left out.

    Args:
        tensor: the tensor.

    Example:
        >>> t = gradlib.ones(2)
        >>> t.note = "mine"
        >>> attributes_of(t)
        {'note': 'mine'}
    """
    return dict(tensor.__dict__)


def warn_of_hooks(tensor: Tensor) -> None:
    """Say that the hooks of a leaf are not written."""
    if tensor.is_leaf:
        warn_of_each_hook(tensor, stacklevel=4)


def warn_of_each_hook(tensor: Tensor, stacklevel: int) -> None:
    """Say which hooks of a tensor are not written, but for those that are marked."""
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=stacklevel,
            )


def _whole_owner(array: Any, any_order: bool = False) -> Any:
    """The owner of an array's memory, if the array can be described as a part of it; else None.

    any_order: also one whose dimensions lie in another order than C's or Fortran's.
    """
    root = owner(array)
    if array.size and span(array) is None:
        return None
    if root.flags.c_contiguous or root.flags.f_contiguous:
        return root
    return root if any_order and dense_bytes(root) is not None else None


def _on_device(array: Any) -> tuple[UntypedStorage, int] | None:
    """The storage of an array on a device, which plain pickle knows again and copy.copy takes as it is, and its offset.

    None for the host's, and where the storage does not hold all of it (views by address do not know their base).
    """
    if isinstance(array, np.ndarray) or span(array) is None:
        return None
    storage = storage_of(array)
    offset = (address(array) - address(storage._root)) // array.itemsize
    need = bytes_needed(array.itemsize, offset, array.shape, strides_of(array))
    return (storage, offset) if offset >= 0 and need <= storage.nbytes() else None


def refuse_entry(tensor: Tensor) -> None:
    """RuntimeError for a tensor of the batch inside vmap: there are as many values of it as entries."""
    if hasattr(tensor._array, "level"):
        raise RuntimeError(
            "vmap: copy.copy, pickle and torch.save ask for the values of a tensor of the batch; clone() or "
            "copy.deepcopy makes a copy inside of vmap"
        )


def copy_memory(root: Any, memo: dict[int, Any]) -> Any:
    """The copy that one deepcopy makes of the memory of `root`: uint8, the same for all that share it.

    Args:
        root: a raw array.
        memo: of the deepcopy.

    Example:
        >>> memo = {}
        >>> a = numpy.ones(3)
        >>> copy_memory(a, memo) is copy_memory(a, memo)
        True
    """
    if id(root) not in memo:
        memo[id(root)] = copied(flat_bytes(root))
        memo.setdefault(id(memo), []).append(root)  # keeps it, and its id, alive meanwhile
    return memo[id(root)]


def reduce_tensor(t: Tensor, protocol: int) -> tuple[Any, ...]:
    """What `Tensor.__reduce_ex__` returns: how plain pickle makes the tensor again.

    Tensors and storages of one pickle that share memory share it again afterwards. Values, dtype, strides,
    device, requires_grad, class and attributes are kept (which may refer to the tensor); gradient
    and graph are not.

    Args:
        t: Tensor.
        protocol: pickle protocol.

    Returns:
        A function, its arguments and the attributes.

    Example:
        >>> function, args, state = reduce_tensor(gradlib.ones(2), 5)
        >>> function(*args)
        tensor([1., 1.])
    """
    refuse_entry(t)
    warn_of_hooks(t)
    if is_sparse(t):
        held = Sparse(moved(t._array.pattern, to_host), to_host(t._array.values))
        args = (type(t), held, str(t.device), t.requires_grad)
        return _rebuild_sparse, args, attributes_of(t) or None
    bits, array = bits_of(t), physical_of(t)._array
    strides, offset = t.stride(), 0
    memory: Any = _whole_owner(array) if isinstance(array, np.ndarray) else None
    if memory is None and isinstance(
        array, np.ndarray
    ):  # dense, but in another order of dimensions
        memory = dense_bytes(owner(array))
    if t.is_meta:
        args = (type(t), None, (t.dtype.name, tuple(t.shape), strides, 0), "meta", t.requires_grad)
        return _rebuild_tensor, args, attributes_of(t) or None
    if memory is not None:
        offset = (address(array) - address(memory)) // array.itemsize
    elif (found := _on_device(array)) is not None:
        memory, offset = found
    else:
        memory = to_host(array).copy("K")
        strides = strides_of(memory)
    geometry = (t.dtype.name, tuple(array.shape), strides, offset)
    args = (type(t), memory, geometry, str(t.device), t.requires_grad)
    if bits:
        args = (*args, None, bits)
    return _rebuild_tensor, args, attributes_of(t) or None


def _rebuild_tensor(
    kind: type,
    memory: np.ndarray | UntypedStorage | None,
    geometry: tuple[str, tuple[int, ...], tuple[int, ...], int],
    where: str,
    requires_grad: bool,
    attributes: dict[str, Any] | None = None,
    bits: int = 0,
) -> Tensor:
    """Make the tensor that `reduce_tensor` wrote down. Older pickles give the attributes here. bits: of a lazy one."""
    dtype, shape, strides, offset = geometry
    if memory is None:
        made = names.rebuild_meta(dtypes.by_name(dtype), shape, strides, False)
        return _dressed(made, kind, requires_grad, attributes or {})
    there = isinstance(memory, UntypedStorage)
    raw = flat_bytes(memory._root if there else memory)
    made = Tensor._make(view_of(raw, dtypes.by_name(dtype), offset, shape, strides))
    if where != "cpu" and not there:
        made = made.to(where)
    made = Tensor._make(wrap(made, bits))
    return _dressed(made, kind, requires_grad, attributes or {})


def _rebuild_sparse(kind: type, held: Sparse, where: str, requires_grad: bool) -> Tensor:
    """Make the sparse tensor that `reduce_tensor` wrote down."""
    made = Tensor._make(held)
    return _dressed(made if where == "cpu" else made.to(where), kind, requires_grad, {})


def _dressed(made: Tensor, kind: type, requires_grad: bool, attributes: dict[str, Any]) -> Tensor:
    """`made` as an instance of `kind`, with attributes."""
    if kind is not Tensor:
        made = Tensor._make_subclass(kind, made, requires_grad)
    else:
        made.requires_grad = requires_grad
    made.__dict__.update(attributes)
    return made


def deepcopy_tensor(t: Tensor, memo: dict[int, Any]) -> Tensor:
    """What `Tensor.__deepcopy__` returns: a leaf with its own copy of the memory.

    Tensors of one deepcopy that share memory share the copy. Gradient and attributes are copied.

    Args:
        t: Tensor; a leaf.
        memo: the memo of `copy.deepcopy`.

    Raises:
        RuntimeError: `t` was made by an operation that is recorded.

    Example:
        >>> t = gradlib.ones(2)
        >>> made = deepcopy_tensor(t, {})
        >>> made.data_ptr() == t.data_ptr()
        False
    """
    known = memo.get(id(t))
    if known is not None:
        return known
    if not t.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    if is_sparse(t):
        made = _dressed(copied_sparse(t), type(t), t.requires_grad, {})
    elif hasattr(t._array, "level"):  # inside vmap
        made = _dressed(t.detach().clone(), type(t), t.requires_grad, {})
    else:
        made = _dressed(Tensor._make(_duplicate(t, memo)), type(t), t.requires_grad, {})
    memo[id(t)] = made
    made.__dict__.update(copy.deepcopy(attributes_of(t), memo))
    if t._grad is not None:
        made._grad = copy.deepcopy(t._grad, memo)
    return made


def _duplicate(t: Tensor, memo: dict[int, Any]) -> Any:
    """A copy of the raw array of `t`, in the copy of its memory that others may be in, too."""
    array = raw_values(t)
    root = None if is_lazy(t) or t.is_meta else _whole_owner(array, any_order=True)
    if root is None:
        return copied(array, "K")
    offset = (address(array) - address(root)) // array.itemsize
    return view_of(copy_memory(root, memo), t.dtype, offset, array.shape, t.stride())
