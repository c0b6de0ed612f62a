"""Tensor: a strided view of a buffer plus what autograd knows about it.

Only what belongs to the tensor itself is here; operations become methods through their declarations (`operators`).
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, overload

import numpy as np
from numpy import ndarray

from . import dtypes, errors, handed, override
from .arrays import kernels_of
from .arrays import to_host as to_host
from .attributes import Attributes
from .declared import Declared
from .device import CPU, device, on_cuda, stored
from .dispatching import Dispatch
from .geometry import Geometry
from .gradient_dtype import GradientDtype, refusal
from .interop import Interop
from .layout import UNSTORED, strided
from .modes import INFERENCE as INFERENCE_MODE
from .modes import note_leaf, shared, state
from .node import Node, edge, leaf_edge
from .printing import tensor_repr
from .sizes import Size, wrap_dim
from .source import user_frame, user_level
from .storage import INFERENCE, share, version_of
from .tensor_hooks import Hooks
from .views import View

COO, CSR = UNSTORED["sparse_coo"], UNSTORED["sparse_csr"]
new = object.__new__
new_size = tuple.__new__


class Constant:
    """An attribute that is the same for all tensors, and cannot be set."""

    __slots__ = ("name", "value")

    def __init__(self, value: Any):
        self.value, self.name = value, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.value

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(f"attribute '{self.name}' of 'TensorBase' objects is not writable")

    def __delete__(self, instance: Any) -> None:
        self.__set__(instance, None)


class Read(Constant):
    """An attribute that is the same for all dense tensors, and read from the array of a sparse one."""

    __slots__ = ("read",)

    def __init__(self, read: Any, dense: Any):
        super().__init__(dense)
        self.read = read

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is not None and instance._array.__class__ is shared.sparse:
            return self.read(instance._array)
        return self.value


INFERENCE_REQUIRES_GRAD = (
    "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
)


class Tensor(Attributes, Interop, Geometry, Hooks, GradientDtype, Dispatch, Declared):
    """A multi-dimensional array that records operations for differentiation. Made by ``gradlib.tensor`` and others."""

    # Hot state, set by every op. _nr: see node.py. _ver: int or Storage. _view: View or None.
    __slots__ = ("_array", "_fn", "_grad", "_nr", "_rg", "_ver", "_view")
    # Rare state: defaults on the class, values in the dictionary (see attributes.INTERNAL).
    _accumulator: Any = None  # weak reference to the AccumulateGrad of a leaf
    # of a base: (raw array before, op, attributes that undo it) for each change of its geometry in place
    _geometries: tuple = ()
    _detached: Any = None  # where: (code, instruction)
    _tangent: Tensor | None = None
    _tangent_level = -1
    _inherits = False  # of a view that nothing recorded: it requires grad because its base does, and has no edge
    # Of a view: the tangent of its base, and the part of it that is the view's.
    _tangent_part: Any = None
    _mirrored: Tensor | None = (
        None  # of an entry of a batch whose tangent is part of the batch's: the batch's
    )
    _tangent_copied: Tensor | None = None  # the tangent, if it is a copy that nobody else holds
    __array_priority__ = 1000  # NumPy arrays leave binary operators to us
    is_quantized = is_mkldnn = is_mps = is_xpu = is_nested = Constant(False)
    is_ipu = is_maia = is_mtia = is_vulkan = is_xla = Constant(False)
    layout = Read(lambda array: array.pattern.layout, strided)
    is_sparse = Read(lambda array: array.pattern.layout is COO, False)
    is_sparse_csr = Read(lambda array: array.pattern.layout is CSR, False)
    name = Constant(None)

    _array: Any
    _fn: Node | None
    _grad: Tensor | None
    _nr: int
    _rg: bool
    _ver: Any
    _view: View | None

    def __new__(cls, *args, device=None, **kwargs):

        return handed.legacy_constructor(cls, *args, device=device, **kwargs)

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
        if not override.lasting and override.overrides(cls):
            override.arm()
        if cls._dispatches:
            return handed.subclasses.make_holder(cls, data, requires_grad)
        out = new(cls)
        out._array, out._rg, out._fn, out._nr, out._grad, out._view = (
            data._array,
            requires_grad,
            None,
            0,
            None,
            None,
        )
        out._ver = INFERENCE if state.bits & INFERENCE_MODE or data._ver is INFERENCE else 0
        if requires_grad:
            if data._array.dtype not in dtypes.DIFFERENTIABLE:
                raise RuntimeError(
                    "Only Tensors of floating point and complex dtype can require gradients"
                )
            if out._ver is INFERENCE and not state.bits & INFERENCE_MODE:
                raise RuntimeError(INFERENCE_REQUIRES_GRAD)
            if out._ver is INFERENCE:
                note_leaf(out)
        return out

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        """What a subclass does where it overrides nothing: call `func`; tensors among its results are of the class.

        Args:
            func: the function or method that was called.
            types: the classes of the arguments that override functions.
            args, kwargs: what it was called with.

        Returns:
            The result; NotImplemented if an argument is of a class that `cls` does not derive from.

        Example:
            >>> class Loud(gradlib.Tensor):
            ...     @classmethod
            ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
            ...         print(func.__name__)
            ...         return super().__torch_function__(func, types, args, kwargs)
            >>> _ = gradlib.ones(2).as_subclass(Loud) + 1
            add
        """
        return override.default(cls, func, types, args, kwargs)

    # -- facts ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The lengths of the dimensions, as a `Size` (a tuple).

        Example:
            >>> gradlib.zeros(2, 3).shape
            torch.Size([2, 3])
        """
        return new_size(Size, self._array.shape)

    @overload
    def size(self) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None):
        """The shape, or the length of one dimension."""
        if dim is None:
            return new_size(Size, self._array.shape)
        return self._array.shape[wrap_dim(dim, self._array.ndim)]

    @property
    def dtype(self) -> dtypes.dtype:
        """The dtype of the elements; ``x.to(dtype)`` gives a tensor of another one.

        Example:
            >>> gradlib.zeros(2).dtype
            torch.float32
        """
        return dtypes.BY_NP[self._array.dtype]

    @property
    def device(self) -> device:
        """Where the memory is: the CPU, or a CUDA device with its index.

        Example:
            >>> gradlib.zeros(2, device="cpu").device
            device(type='cpu')
        """
        array, cuda = self._array, shared.cuda
        if array.__class__ is ndarray:
            return CPU
        if cuda is not None and array.__class__ is cuda.array:
            return on_cuda(array.data.device_id)
        physical = getattr(self._array, "physical", None)
        if physical is not None:  # inside vmap, or lazy
            return physical.device

        return kernels_of(self._array).device_of(stored(self._array))

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a CUDA device."""
        return self._array.__class__ is not ndarray and self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the memory is the host's."""
        return self._array.__class__ is ndarray or self.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has a shape and a dtype, but neither memory nor values.

        Example:
            >>> gradlib.empty(2, device="meta").is_meta
            True
        """
        return self._array.__class__ is not ndarray and self.device.type == "meta"

    @property
    def ndim(self) -> int:
        """The number of dimensions; also ``dim()``."""
        return self._array.ndim

    def dim(self) -> int:
        """The number of dimensions; also ``ndimension()``."""
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements, the product of the lengths; also ``nelement()``.

        Example:
            >>> gradlib.zeros(2, 3).numel()
            6
        """
        return self._array.size

    nelement = numel

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self._array.itemsize

    def element_size(self) -> int:
        """The bytes of one element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements; a view that repeats elements counts them each time."""
        return self._array.size * self._array.itemsize

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating-point one; complex ones are not."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self._array.dtype.kind == "c"

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers: all but bool and unsigned integers."""
        return self.dtype.is_signed

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode: it has no version counter, and cannot be saved for backward.

        Example:
            >>> with gradlib.inference_mode():
            ...     gradlib.ones(2).is_inference()
            True
        """
        return self._ver is INFERENCE

    def is_pinned(self, device=None) -> bool:
        """Whether the host memory is page-locked, so that copies to a CUDA device need no wait; see ``pin_memory()``.

        device: accepted for compatibility.
        """
        if self._array.__class__ is not ndarray or self._array.base is None:
            return False

        return handed.is_pinned(self._array)

    def is_same_size(self, other: Tensor) -> bool:
        """Whether `other` has the same shape."""
        return self._array.shape == other._array.shape

    def get_device(self) -> int:
        """The index of the CUDA device; -1 for a tensor on the CPU."""
        index = self.device.index
        return -1 if index is None else index

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __hash__(self) -> int:
        return id(self)

    def __dir__(self) -> list[str]:
        names = set(object.__dir__(self))
        if not self.is_cuda:
            names.discard("__cuda_array_interface__")
        return sorted(names)

    def __repr__(self, *, tensor_contents=None) -> str:
        return tensor_repr(self, tensor_contents=tensor_contents)

    # -- autograd state ------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients need to be computed for this tensor."""
        return self._rg

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool")

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value is not True and value is not False:
            raise RuntimeError("requires_grad must be a bool")
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
            raise RuntimeError(INFERENCE_REQUIRES_GRAD)
        if type(self._ver) is not int:  # so do the views of it
            (self._ver.require_grad if value else self._ver.release_grad)(self)
        if self._inherits:
            self._inherits = not value
        self._rg = value
        if value and self._ver is INFERENCE:
            note_leaf(self)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad` in place; returns the tensor."""
        if requires_grad is not True and requires_grad is not False:
            raise TypeError(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                f"{type(requires_grad).__name__}"
            )
        if requires_grad and self._array.dtype not in dtypes.DIFFERENTIABLE:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
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
        """Which output of its ``grad_fn`` the tensor is; 0 for a leaf."""
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
                stacklevel=user_level(),
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
            if (wrong := refusal(self, value)) is not None:
                raise RuntimeError(wrong)
            if value.device.type != self.device.type:
                raise RuntimeError(
                    f"attempting to assign a gradient with device type '{value.device.type}' to a tensor with device "
                    f"type '{self.device.type}'. Please ensure that the gradient and the tensor are on the same device"
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
        if shared.active and state.capture is not None:
            state.capture.set_grad(self, value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph, with a version counter of its own."""
        if shared.subclasses is not None and shared.subclasses.among((self,)):
            return shared.subclasses.detach(self)
        out = Tensor._make(_without_history(self._array) if shared.batches else self._array)
        out._ver = INFERENCE if self._ver is INFERENCE else 0  # in every mode what the tensor is
        return out

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._rg and value._array.dtype not in dtypes.DIFFERENTIABLE:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype"
            )
        if value.is_meta != self.is_meta:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
                "type."
            )
        if shared.batches:
            if _recorded_outside(self._array):
                raise RuntimeError(
                    "mutating directly with `.data` under vmap transform is not allowed for a tensor that depends on "
                    "one outside of it that requires grad: use copy_ under torch.no_grad()"
                )
            self._array = _without_history(value._array)
        else:
            self._array = value._array

    @property
    def _version(self) -> int:
        return version_of(self)

    @property
    def _base(self) -> Tensor | None:
        view = self._view
        return None if view is None or self._ver is INFERENCE else view.base

    def _is_view(self) -> bool:
        return self._view is not None and self._ver is not INFERENCE

    def _accumulator_of(self, leaf: Tensor) -> None:
        """Let gradients of this alias go to `leaf`."""
        node, _ = leaf_edge(leaf)
        self._fn = None
        self._accumulator = lambda: node

    def detach(self) -> Tensor:
        """The same memory and version counter, outside the graph; never requires grad."""
        if shared.batches and hasattr(self._array, "level"):
            return _detached(self, self._array.physical)
        if shared.subclasses is not None and shared.subclasses.among((self,)):
            return shared.subclasses.detach(self)
        out = Tensor._alias(self)
        frame = sys._getframe(1)
        if override.armed:  # it was called by way of what asks
            frame = user_frame(frame)
        out._detached = (
            frame.f_code,
            frame.f_lasti,
        )  # for errors, and for autograd.explain
        return out

    def detach_(self) -> Tensor:
        """Take this tensor out of its graph in place; RuntimeError for a view. In inference mode nothing happens."""
        if shared.active and state.bits & INFERENCE_MODE:
            return self
        if self._view is not None:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) "
                "for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and "
                "hence detach_() cannot be called on these gradients. To fix this error, please refer to the "
                "Optimizer.zero_grad() function in torch/optim/optimizer.py as a solution."
            )
        self._rg, self._fn, self._nr, self._accumulator = False, None, 0, None
        if shared.batches or (shared.active and state.dual_level >= 0):
            handed.forget(self)
        return self

    def record_stream(self, stream) -> None:
        """Keep this tensor's memory for what `stream` has queued when the tensor dies; see gradlib.cuda."""

        handed.record_stream(self, stream)

    def _has_symbolic_sizes_strides(self) -> bool:
        return False


def _detached(tensor: Tensor, physical: Tensor) -> Tensor:
    """``tensor.detach()`` inside vmap: the batch, too, is detached from the graphs outside."""
    array = tensor._array
    out = Tensor._make(handed.entry(array.level, physical.detach(), array.batched))
    out._ver = share(tensor)  # what is written to it counts for `tensor`, too
    return out


def _without_history(array: Any) -> Any:
    """A raw array, that of an entry inside vmap without the graphs outside of it."""
    if not hasattr(array, "level"):
        return array
    return handed.entry(array.level, array.physical.data, array.batched)


def _recorded_outside(array: Any) -> bool:
    """Whether what holds the values of all entries inside vmap requires grad, of an entry's raw array."""
    while hasattr(array, "level"):
        if array.physical._rg:
            return True
        array = array.physical._array
    return False


handed.over(Tensor)
override.overridable_class(Tensor)
override.plain(Size, device, dtypes.dtype)
