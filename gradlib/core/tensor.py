"""Tensor: a strided view of a buffer plus what autograd knows about it.

Only what belongs to the tensor itself is here; operations become methods through their declarations (gradlib/ops).
"""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
from numpy import ndarray

from . import dtypes, errors
from .device import CPU, device
from .hooks import RemovableHandle
from .layout import has_layout, strided
from .modes import INFERENCE as INFERENCE_MODE
from .modes import NO_GRAD, VMAP, shared, state
from .node import Node, edge, leaf_edge
from .storage import INFERENCE, before_write, bump, share, version_of
from .views import View

new = object.__new__


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple of ints that prints as ``torch.Size([2, 3])``."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
        n = 1
        for length in self:
            n *= length
        return n

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    @overload
    def __getitem__(self, item: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> Size: ...
    def __getitem__(self, item):
        out = tuple.__getitem__(self, item)
        return Size(out) if isinstance(item, slice) else out

    def __add__(self, other) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __reduce__(self):
        return (Size, (tuple(self),))


class Tensor:
    """A multi-dimensional array that records operations for differentiation. Made by ``gradlib.tensor`` and others."""

    # Hot state, set by every op. _nr: see node.py. _ver: int or Storage. _view: View or None.
    __slots__ = ("__dict__", "__weakref__", "_array", "_fn", "_grad", "_nr", "_rg", "_ver", "_view")
    # Rare state: defaults on the class, values in __dict__.
    _accumulator: Any = None  # weak reference to the AccumulateGrad of a leaf
    _backward_hooks: OrderedDict | None = (
        None  # of a leaf; those of other tensors live in their node
    )
    _post_accumulate_grad_hooks: OrderedDict | None = None
    _retain: Any = None
    _tangent: Tensor | None = None
    _tangent_level = -1
    name: str | None = None
    __array_priority__ = 1000  # NumPy arrays leave binary operators to us
    __array_ufunc__ = None
    is_sparse = is_quantized = is_mkldnn = is_mps = is_meta = is_xpu = is_nested = False
    layout = strided
    names: Any = None

    if TYPE_CHECKING:  # methods and operators come from the declarations in gradlib/ops

        def __getattr__(self, name: str) -> Any: ...

        __add__: Any
        __radd__: Any
        __sub__: Any
        __rsub__: Any
        __mul__: Any
        __rmul__: Any
        __truediv__: Any
        __rtruediv__: Any
        __div__: Any
        __rdiv__: Any
        __floordiv__: Any
        __rfloordiv__: Any
        __mod__: Any
        __rmod__: Any
        __pow__: Any
        __rpow__: Any
        __matmul__: Any
        __rmatmul__: Any
        __neg__: Any
        __pos__: Any
        __abs__: Any
        __invert__: Any
        __and__: Any
        __or__: Any
        __xor__: Any
        __rand__: Any
        __ror__: Any
        __rxor__: Any
        __lshift__: Any
        __rshift__: Any
        __eq__: Any
        __ne__: Any
        __lt__: Any
        __le__: Any
        __gt__: Any
        __ge__: Any
        __iadd__: Any
        __isub__: Any
        __imul__: Any
        __itruediv__: Any
        __ifloordiv__: Any
        __imod__: Any
        __ipow__: Any
        __iand__: Any
        __ior__: Any
        __ixor__: Any
        __contains__: Any
        __getitem__: Any
        __setitem__: Any
        __iter__: Any

    _array: Any
    _fn: Node | None
    _grad: Tensor | None
    _nr: int
    _rg: bool
    _ver: Any
    _view: View | None

    def __new__(cls, *args, device=None, **kwargs):
        from ..ops.data import legacy_constructor

        return legacy_constructor(cls, *args, device=device, **kwargs)

    # -- construction from raw arrays ----------------------------------------------------------------------------

    @staticmethod
    def _make(array, requires_grad: bool = False) -> Tensor:
        """Wrap a raw array (NumPy or CuPy); the array is shared, not copied."""
        out = new(Tensor)
        out._array = (
            array
            if isinstance(array, ndarray)
            or (hasattr(array, "ndim") and not isinstance(array, np.generic))
            else np.asarray(array)
        )
        out._rg, out._fn, out._nr, out._grad, out._view = requires_grad, None, 0, None, None
        out._ver = INFERENCE if state.bits & INFERENCE_MODE else 0
        return out

    @staticmethod
    def _alias(tensor: Tensor) -> Tensor:
        """Another Tensor on the same memory and version counter, outside any graph."""
        out = Tensor._make(tensor._array)
        out._ver = share(tensor)
        return out

    @staticmethod
    def _make_subclass(
        cls,  # pyright: ignore[reportSelfClsParameterName]
        data: Tensor,
        requires_grad: bool = False,
    ):
        """An instance of a Tensor subclass on the memory of `data`."""
        out = new(cls)
        out._array, out._rg, out._fn, out._nr, out._grad, out._view = (
            data._array,
            requires_grad,
            None,
            0,
            None,
            None,
        )
        out._ver = INFERENCE if state.bits & INFERENCE_MODE else 0
        return out

    # -- facts ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return Size(self._array.shape)

    @overload
    def size(self) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None):
        """The shape, or the length of one dimension."""
        if dim is None:
            return Size(self._array.shape)
        return self._array.shape[wrap_dim(dim, self._array.ndim)]

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.BY_NP[self._array.dtype]

    @property
    def device(self) -> device:
        if self._array.__class__ is ndarray:
            return CPU
        from ..backends import backend_of

        return backend_of(self._array).device_of(self._array)

    @property
    def is_cuda(self) -> bool:
        return self._array.__class__ is not ndarray and self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        return not self.is_cuda

    @property
    def ndim(self) -> int:
        return self._array.ndim

    def dim(self) -> int:
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        return self._array.size

    nelement = numel

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    def element_size(self) -> int:
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        return self._array.size * self._array.itemsize

    @overload
    def stride(self) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None):
        """Strides in elements."""
        array = self._array
        if array.size:
            strides = tuple(s // array.itemsize for s in array.strides)
        else:  # NumPy leaves them arbitrary
            lengths = [max(n, 1) for n in array.shape]
            strides = tuple(Size(lengths[i + 1 :]).numel() for i in range(array.ndim))
        return strides if dim is None else strides[wrap_dim(dim, len(strides))]

    def storage_offset(self) -> int:
        root = self._array
        while isinstance(root.base, type(root)):
            root = root.base
        return (self.data_ptr() - _pointer(root)) // self._array.itemsize

    def data_ptr(self) -> int:
        """Address of the first element."""
        return _pointer(self._array)

    def untyped_storage(self):
        from .untyped import UntypedStorage

        return UntypedStorage(self)

    def is_contiguous(self, memory_format=None) -> bool:
        if memory_format is not None:
            return has_layout(self._array, memory_format)
        return self._array.flags.c_contiguous

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self._array.dtype.kind == "c"

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    def is_inference(self) -> bool:
        return self._ver is INFERENCE

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return False

    def is_pinned(self, device=None) -> bool:
        return bool(getattr(self._array.base, "is_pinned", False))

    def is_shared(self) -> bool:
        return False

    def is_set_to(self, tensor: Tensor) -> bool:
        a, b = self._array, tensor._array
        return (_pointer(a), a.shape, a.strides) == (_pointer(b), b.shape, b.strides)

    def is_same_size(self, other: Tensor) -> bool:
        return self._array.shape == other._array.shape

    def get_device(self) -> int:
        index = self.device.index
        return -1 if index is None else index

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __bool__(self) -> bool:
        if self._array.size != 1:
            if self._array.size == 0:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        if shared.active and state.bits & VMAP:
            _batching().refuse(self, _batching().BRANCH)
        return bool(self.item())

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, *, tensor_contents=None) -> str:
        from .printing import tensor_repr

        return tensor_repr(self, tensor_contents=tensor_contents)

    def __format__(self, spec: str) -> str:
        if self._array.ndim == 0:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    # -- values --------------------------------------------------------------------------------------------------

    def item(self):
        """The value of a tensor with one element as a Python number."""
        if self._array.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar"
            )
        if shared.active and state.bits & VMAP:
            _batching().refuse(self, _batching().ITEM)
        value = self._array.item()
        return float(value) if self._array.dtype.kind == "V" else value

    def tolist(self):
        """The values as nested lists of Python numbers."""
        if shared.active and state.bits & VMAP:
            _batching().refuse(self, _batching().DATA)
        array = to_host(self._array)
        return (array.astype(np.float32) if array.dtype.kind == "V" else array).tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iub" or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        if shared.active and state.bits & VMAP:
            _batching().refuse(self, _batching().ITEM)
        return int(self._array.item())

    def conjugate(self) -> Tensor:
        """The complex conjugate; NumPy's spelling, shared by arrays, numbers and tensors, for gradient formulas."""
        return self.conj() if self._array.dtype.kind == "c" else self

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The values as a NumPy array that shares memory with a CPU tensor.

        Raises RuntimeError if the tensor requires grad and TypeError if it is on a CUDA device, unless `force`.
        """
        if shared.active and state.bits & VMAP:
            _batching().refuse(self, _batching().DATA)
        if force:
            return to_host(self._array)
        if self._rg and not state.bits & NO_GRAD:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self._array.__class__ is not ndarray and self.is_cuda:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                "host memory first."
            )
        return self._array

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream=None, **kwargs):
        if self._rg:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self._array.__class__ is ndarray:
            return self._array.__dlpack__(**kwargs)
        return self._array.__dlpack__(stream=stream, **kwargs)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    @property
    def __cuda_array_interface__(self):
        if not self.is_cuda:
            raise AttributeError(
                "Can't get __cuda_array_interface__ on non-CUDA tensor type: torch."
                f"{self.dtype.tensor_type} Use tensor.cuda() to copy the tensor to device memory."
            )
        if self._rg:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, "
                "use var.detach() to get Variable that doesn't require grad."
            )
        return self._array.__cuda_array_interface__

    def __reduce_ex__(self, protocol):
        from ..serialization import reduce_tensor

        return reduce_tensor(self, protocol)

    def __deepcopy__(self, memo):
        from ..serialization import deepcopy_tensor

        return deepcopy_tensor(self, memo)

    # -- autograd state ------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients need to be computed for this tensor."""
        return self._rg

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        value = bool(value)
        if not self.is_leaf and not (value and self._rg):
            extra = (
                " If you want to use a computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables."
                + ("" if value else extra)
            )
        if value and self._array.dtype not in dtypes.DIFFERENTIABLE:
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients"
            )
        if value and not self._rg and self._ver is INFERENCE and not state.bits & INFERENCE_MODE:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
            )
        self._rg = value

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad` in place; returns the tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad_fn(self) -> Node | None:
        """The Node of the operation that made this tensor; None for leaves and untracked results."""
        if self._fn is not None or self._view is None or not self._rg:
            return self._fn
        return self._view.current_fn(self)

    @property
    def is_leaf(self) -> bool:
        """True unless an operation made this tensor and it requires grad."""
        return not self._rg or self.grad_fn is None

    @property
    def output_nr(self) -> int:
        return max(edge(self)[1] - 1, 0) if self._rg else 0

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by backward(); None before the first, and for tensors that keep none."""
        if self._grad is None and self._rg and not self.is_leaf and self._retain is None:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                "won't be populated during autograd.backward(). If you indeed want the .grad field to be populated "
                "for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor "
                "by mistake, make sure you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 "
                "for more informations.",
                UserWarning,
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value._array.dtype != self._array.dtype:
                raise RuntimeError(
                    f"attempting to assign a gradient with dtype '{value.dtype.name}' to a tensor with dtype "
                    f"'{self.dtype.name}'. The gradient must match the tensor's dtype (e.g. call .to(tensor.dtype))."
                )
            if value.device != self.device:
                raise RuntimeError(
                    f"attempting to assign a gradient located on device '{value.device}' to a tensor located on "
                    f"device '{self.device}'. Please ensure that the gradient and the tensor are on the same device"
                )
            if value._array.shape != self._array.shape:
                raise RuntimeError(
                    f"attempting to assign a gradient of size '{errors.size(value.shape)}' to a tensor of size "
                    f"'{errors.size(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph, with a version counter of its own."""
        return Tensor._make(self._array)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._rg and value._array.dtype not in dtypes.DIFFERENTIABLE:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype"
            )
        self._array = value._array

    @property
    def _version(self) -> int:
        return version_of(self)

    @property
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view.base

    def _is_view(self) -> bool:
        return self._view is not None

    def _accumulator_of(self, leaf: Tensor) -> None:
        """Let gradients of this alias go to `leaf`."""
        node, _ = leaf_edge(leaf)
        self._fn = None
        self._accumulator = lambda: node

    def detach(self) -> Tensor:
        """The same memory and version counter, outside the graph; never requires grad."""
        out = Tensor._alias(self)
        frame = sys._getframe(1)
        out.__dict__["_detached"] = (
            frame.f_code,
            frame.f_lasti,
        )  # for errors, and for autograd.explain
        if shared.active and state.bits & VMAP:
            _batching().inherit(self, out)
        return out

    def detach_(self) -> Tensor:
        """Take this tensor out of its graph in place; RuntimeError for a view."""
        if self._view is not None and self._rg:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) "
                "for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and "
                "hence detach_() cannot be called on these gradients. To fix this error, please refer to the "
                "Optimizer.zero_grad() function in torch/optim/optimizer.py as a solution."
            )
        self._rg, self._fn, self._nr, self._accumulator = False, None, 0, None
        return self

    # -- backward and hooks --------------------------------------------------------------------------------------

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None) -> None:
        """Add the gradient of this tensor with respect to the graph's leaves into their ``.grad``.

        gradient: Tensor of this tensor's shape; may be left out for a tensor with one element.
        inputs: accumulate only into these tensors.
        """
        from ..autograd import backward

        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook) -> RemovableHandle:
        """Call ``hook(grad)`` whenever a gradient of this tensor is computed; a returned tensor replaces it."""
        if not self._rg:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.is_leaf:
            if self._backward_hooks is None:
                self._backward_hooks = OrderedDict()
            hooks = self._backward_hooks
        else:
            node, nr = edge(self)
            assert node is not None
            hooks = node.make_extra().tensor_hooks.setdefault(nr, OrderedDict())
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def register_post_accumulate_grad_hook(self, hook) -> RemovableHandle:
        """Call ``hook(tensor)`` after a gradient was accumulated into ``tensor.grad``; leaves only."""
        if not self._rg:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        if self._post_accumulate_grad_hooks is None:
            self._post_accumulate_grad_hooks = OrderedDict()
        handle = RemovableHandle(self._post_accumulate_grad_hooks)
        self._post_accumulate_grad_hooks[handle.id] = hook
        return handle

    def retain_grad(self) -> None:
        """Let backward() fill ``.grad`` of this non-leaf; no effect on a leaf."""
        import weakref

        if not self._rg:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.is_leaf or self._retain is not None:
            return
        node, nr = edge(self)
        assert node is not None
        node.make_extra().retained[nr] = weakref.ref(self)
        self._retain = True

    @property
    def retains_grad(self) -> bool:
        return self._retain is not None and not self.is_leaf

    # -- geometry in place (refused on aliases made by detach, decision of the documentation) ------------------------

    def set_(self, source=None, storage_offset=0, size=None, stride=None) -> Tensor:
        """Let this tensor use the memory of `source`."""
        self._refuse_metadata("set_storage")
        before_write(self)
        self._array = np.empty(0, self._array.dtype) if source is None else source._array
        bump(self)
        return self

    def resize_(self, *sizes, memory_format=None) -> Tensor:
        """Change the shape in place, keeping elements in order; new elements are undefined."""
        self._refuse_metadata("set_sizes_contiguous")
        if self._rg:
            raise RuntimeError("cannot resize variables that require grad")
        shape = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        flat = self._array.reshape(-1)
        n = Size(shape).numel()
        if n > flat.size:
            grown = np.zeros(n, flat.dtype)
            grown[: flat.size] = flat
            flat = grown
        self._array = flat[:n].reshape(shape)
        bump(self)
        return self

    def resize_as_(self, tensor: Tensor, memory_format=None) -> Tensor:
        return self.resize_(tensor.shape)

    def record_stream(self, stream) -> None:
        """Keep this tensor's memory for what `stream` has queued when the tensor dies; see gradlib.cuda."""
        from ..cuda.streams import record_stream

        record_stream(self, stream)

    def _refuse_metadata(self, what: str) -> None:
        if self.__dict__.get("_detached"):
            raise RuntimeError(
                f"{what} is not allowed on a Tensor created from .data or .detach().\n"
                "If your intent is to change the metadata of a Tensor (such as sizes / strides / storage / "
                "storage_offset) without autograd tracking the change, remove the .data / .detach() call and wrap "
                "the change in a `with torch.no_grad():` block."
            )

    def _has_symbolic_sizes_strides(self) -> bool:
        return False


def bump_version(tensor: Tensor) -> None:
    """Raise the version counter after a raw write to ``tensor._array``."""
    bump(tensor)


def _batching():
    """The mechanism of vmap, for tensors that belong to a batch."""
    from . import batching

    return batching


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension in [0, ndim) from one in [-ndim, ndim); 0-dim tensors accept 0 and -1."""
    n = ndim or 1
    if -n <= dim < n:
        return dim + n if dim < 0 else dim
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
    )


def to_host(array) -> np.ndarray:
    """A NumPy array with the values of a raw array (copied from the device if need be)."""
    return array if array.__class__ is ndarray else array.get()


def _pointer(array) -> int:
    if array.__class__ is ndarray:
        return array.__array_interface__["data"][0] if array.size else 0
    return array.data.ptr
