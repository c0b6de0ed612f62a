"""``__torch_dispatch__``: what Tensor knows of subclasses that take the place of kernels, below autograd.

Who asks them is `ops.subclass`, which is imported when the first such tensor is made. From then on, and as long as one
lives, it stands in ``shared.subclasses``. The fast path of ops never meets them, because their arrays are of other
classes.
"""

from __future__ import annotations

from typing import Any

from . import handed, override


class Dispatch:
    """The part of Tensor that subclasses with a ``__torch_dispatch__`` are made with."""

    __slots__ = ()
    _dispatches = False  # whether instances of the class are asked in the place of kernels

    @staticmethod
    def _make_wrapper_subclass(cls, size, strides=None, storage_offset=0, **options):  # pyright: ignore[reportSelfClsParameterName]
        """An instance of a subclass of Tensor that has a ``__torch_dispatch__``, and no memory of its own.

        Args:
            cls: the class.
            size, strides, storage_offset: what the tensor says about itself; row-major without `strides`.
            options: dtype, layout, device and requires_grad as of ``empty``; others of PyTorch's are refused where
                they ask for something.

        Raises:
            TypeError: `cls` is no subclass of Tensor, or has no ``__torch_dispatch__``.

        Example:
            >>> class Doubled(gradlib.Tensor):
            ...     @staticmethod
            ...     def __new__(cls, inner):
            ...         out = gradlib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            ...         out.inner = inner
            ...         return out
            ...     @classmethod
            ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            ...         return func(*[2 * a.inner if isinstance(a, cls) else a for a in args])
            >>> Doubled(gradlib.ones(2)) + 1
            tensor([3., 3.])
        """
        return handed.subclasses.make_wrapper(cls, size, strides, storage_offset, **options)

    def __init_subclass__(cls, **options: Any) -> None:
        """Classes with a ``__torch_dispatch__`` override no functions, unless they say so."""
        super().__init_subclass__(**options)
        own = vars(cls)
        if "__torch_dispatch__" in own:
            cls._dispatches = True
            if "__torch_function__" not in own:
                cls.__torch_function__ = staticmethod(override.disabled)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """What a subclass does where it defines none: run `func` on the values that the tensors hold.

        Args:
            func: the op.
            types: the classes of the arguments that define ``__torch_dispatch__``.
            args, kwargs: what it was called with.

        Raises:
            NotImplementedError: an argument has no values of its own (see `_make_wrapper_subclass`).
        """
        return handed.subclasses.without_dispatch(func, args, kwargs or {})
