"""Parameters and buffers: the tensors that a module owns."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

import numpy as np

from .._refused import refuse
from ..op import spreading
from ..operators import public as ops
from ..serialization import attributes_of
from ..tape import override
from ..tape.tensor import Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]
__getattr__ = refuse(__name__)


class _ParameterMeta(type(Tensor)):
    """Lets a custom Tensor subclass marked as a parameter pass `isinstance(t, Parameter)`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return (
            cls is Parameter
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_param", False)
        )


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that registers itself when it is assigned to a module attribute.

    Args:
        data: Tensor [...], any dtype that can require grad; shares its storage with the
            parameter. None makes an empty tensor of shape [0].
        requires_grad: whether gradients are accumulated into `.grad`.

    Raises:
        RuntimeError: the dtype cannot require grad, and `requires_grad` is not False.

    Example:
        >>> layer = nn.Module()
        >>> layer.scale = nn.Parameter(gradlib.ones(2))
        >>> [name for name, _ in layer.named_parameters()]
        ['scale']
    """

    __torch_function__: Any = staticmethod(override.disabled)
    _is_param = True  # what the floors below know a parameter by; on others it is set by hand

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = ops.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            if data._array.__class__ is np.ndarray:
                spreading.met(data._array.size)
            return Tensor._make_subclass(cls, data, requires_grad)
        # A subclass of Tensor keeps its own class: it is only marked.
        marked = data.detach().requires_grad_(requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires "
                "that detach() returns an instance of the same type, but "
                f"{type(marked).__name__} was found instead."
            )
        marked._is_param = True
        return marked

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """Everything happens in `__new__`; this names the arguments for inspection."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        known = memo.get(id(self))
        if known is not None:
            return known
        copy = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:

        args = (self.data, self.requires_grad, OrderedDict())
        return _rebuild_parameter, args, attributes_of(self) or None


class _BufferMeta(type(Tensor)):
    """`isinstance(t, Buffer)` is true for every tensor marked as a buffer."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that registers itself as a module's buffer when it is assigned to an attribute.

    Args:
        data: Tensor [...]; None makes an empty tensor of shape [0].
        persistent: whether the buffer is part of the module's `state_dict`.

    Example:
        >>> layer = nn.Module()
        >>> layer.mean = nn.Buffer(gradlib.zeros(2))
        >>> list(layer.state_dict())
        ['mean']
    """

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = ops.empty(0)
        marked = data.detach().requires_grad_(data.requires_grad)
        marked._is_buffer = True
        marked.persistent = persistent
        return marked


_RAW: Any = vars(Tensor)["_array"]  # where a tensor keeps its raw array


def _converts(name: str) -> Any:
    """The method `name` of Tensor, for a tensor without a shape: another one like it, of another dtype or elsewhere."""

    def convert(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = getattr(self.data, name)(*args, **kwargs)
        return self.__class__(self.requires_grad, made.device, made.dtype)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = (
        f"Another one without a shape, as ``Tensor.{name}`` would make its dtype and device.\n\n"
        f"Arguments are those of ``Tensor.{name}``; this one stays as it is.\n"
    )
    return convert


class _Uninitialized:
    """What tensors without a shape share: they know their dtype and device, and refuse to be computed with."""

    __torch_function__: Any = staticmethod(override.disabled)
    cls_to_become: type
    requires_grad: bool

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the tensor its shape and its final class, in place; values stay undefined.

        Args:
            shape: of the tensor.
            device: where it goes; where it was made for, if None.
            dtype: floating; that which it was made with, if None.

        Example:
            >>> p = nn.UninitializedParameter()
            >>> p.materialize((2, 3))
            >>> type(p).__name__, tuple(p.shape)
            ('Parameter', (2, 3))
        """
        self.data = ops.empty(
            shape,
            device=self.device if device is None else device,
            dtype=self.dtype if dtype is None else dtype,
        )
        self.__class__ = self.cls_to_become

    @property
    def _array(self) -> Any:
        where = sys._getframe(1).f_code.co_name
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {where}. This error happens when you are "
            "using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{self.__class__.__name__}` objects. When using LazyModules Call "
            "`forward` with a dummy batch to initialize the parameters before calling torch functions"
        )

    @_array.setter
    def _array(self, value: Any) -> None:
        _RAW.__set__(self, value)

    @property
    def data(self) -> Tensor:
        """The empty tensor that stands for this one."""
        return Tensor._make(_RAW.__get__(self))

    @data.setter
    def data(self, value: Tensor) -> None:
        _RAW.__set__(self, _RAW.__get__(value))

    @property
    def shape(self) -> Any:
        """Refuse: the shape is not known yet.

        Raises:
            RuntimeError: always. Call the module once, or `materialize`.
        """
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    dtype = property(lambda self: self.data.dtype, doc="The dtype that it will have.")
    device = property(lambda self: self.data.device, doc="Where it will be.")
    is_cuda = property(lambda self: self.data.is_cuda, doc="Whether that is a CUDA device.")

    def size(self, dim: int | None = None) -> Any:
        """The size of the empty tensor that stands for this one: [0].

        Args:
            dim: one dimension; None is all.
        """
        return self.data.size() if dim is None else self.data.size(dim)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating one."""
        return self.data.is_floating_point()

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.data.is_complex()

    def get_device(self) -> int:
        """The number of the CUDA device, or -1."""
        return self.data.get_device()

    half, float, double, bfloat16 = map(_converts, ("half", "float", "double", "bfloat16"))
    to, cpu, cuda, type = map(_converts, ("to", "cpu", "cuda", "type"))

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Refuse, as every operation does that is not said otherwise.

        Raises:
            ValueError: always. Pass `requires_grad` to the constructor.
        """
        return self._array

    def share_memory_(self) -> Any:
        """Refuse: there is nothing to share yet.

        Raises:
            RuntimeError: always. Call the module once, or `materialize`.
        """
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        known = memo.get(id(self))
        if known is None:
            known = memo[id(self)] = self.__class__(self.requires_grad, self.device, self.dtype)  # type: ignore[call-arg]
        return known

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return self.__class__, (self.requires_grad, self.device, self.dtype)

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose shape is not known yet; `materialize(shape)` turns it into a Parameter.

    Args:
        requires_grad: whether gradients will be accumulated into `.grad`.
        device: where it will be.
        dtype: that it will have.

    Raises:
        ValueError: it is computed with.
        RuntimeError: it is asked for its shape.

    Example:
        >>> p = nn.UninitializedParameter()
        >>> p.materialize((2, 3))
        >>> tuple(p.shape)
        (2, 3)
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        data = ops.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        """Everything happens in `__new__`."""


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer whose shape is not known yet; `materialize(shape)` turns it into a Tensor.

    Args:
        requires_grad: whether it will require grad.
        device: where it will be.
        dtype: that it will have.
        persistent: whether it is part of the module's `state_dict`.

    Raises:
        ValueError: it is computed with.
        RuntimeError: it is asked for its shape.

    Example:
        >>> b = nn.UninitializedBuffer()
        >>> b.materialize((2, 3))
        >>> tuple(b.shape)
        (2, 3)
    """

    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        data = ops.empty(0, device=device, dtype=dtype)
        made = Tensor._make_subclass(cls, data, requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made

    def __init__(
        self,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> None:
        """Everything happens in `__new__`."""


def add_parameter(
    module: Any, name: str, shape: Any, wanted: bool, device: Any, dtype: Any
) -> None:
    """Give a module a parameter whose values are still to be set, or None where it is not wanted."""
    made = Parameter(ops.empty(shape, device=device, dtype=dtype)) if wanted else None
    module.register_parameter(name, made)


def is_lazy(tensor: Any) -> bool:
    """Whether `tensor` still waits for its shape."""
    return isinstance(tensor, _Uninitialized)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """Make the parameter that `Parameter.__reduce_ex__` wrote down."""
    return Parameter(data, requires_grad)
