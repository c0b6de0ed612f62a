"""Parameters and buffers: the tensors that a module owns."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import gradlib
from gradlib.core.tensor import Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]


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

    Example:
        >>> layer = nn.Module()
        >>> layer.scale = nn.Parameter(gradlib.ones(2))
        >>> [name for name, _ in layer.named_parameters()]
        ['scale']
    """

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = gradlib.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
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
        from gradlib.serialization import attributes_of

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
            data = gradlib.empty(0)
        marked = data.detach().requires_grad_(data.requires_grad)
        marked._is_buffer = True
        marked.persistent = persistent
        return marked


class _Uninitialized:
    """What tensors without a shape share: most uses are refused until `materialize`."""

    cls_to_become: type
    data: Any

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the tensor its shape (values stay undefined) and its final class."""
        made = gradlib.empty(
            shape,
            device=self.data.device if device is None else device,
            dtype=self.data.dtype if dtype is None else dtype,
        )
        self.data = made
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose shape is not known yet; `materialize(shape)` turns it into a Parameter.

    Example:
        >>> p = nn.UninitializedParameter()
        >>> p.materialize((2, 3))
        >>> tuple(p.shape)
        (2, 3)
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        data = gradlib.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        """Everything happens in `__new__`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        known = memo.get(id(self))
        if known is not None:
            return known
        copy = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, self.device, self.dtype)


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer whose shape is not known yet; `materialize(shape)` turns it into a Tensor."""

    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        data = gradlib.empty(0, device=device, dtype=dtype)
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


def is_lazy(tensor: Any) -> bool:
    """Whether `tensor` still waits for its shape."""
    return isinstance(tensor, _Uninitialized)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """Make the parameter that `Parameter.__reduce_ex__` wrote down."""
    return Parameter(data, requires_grad)
