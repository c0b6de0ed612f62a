"""The ctx of a custom Function: what forward keeps for backward and jvp, and what it says about its outputs."""

from __future__ import annotations

import warnings
from typing import Any

from ..tape import errors, saved
from ..tape.tensor import Tensor

NODE_NAMES = frozenset(
    "metadata name next_functions register_hook register_prehook _input_metadata _raw_saved_tensors "
    "_register_hook_dict _sequence_nr _set_sequence_nr".split()
)


class FunctionCtx:
    """What forward, setup_context, backward and jvp of one call share. Takes any attribute.

    Attributes:
        needs_input_grad: for each argument of forward whether it requires grad; False for what is no tensor.

    Example:
        >>> class Scale(gradlib.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x, factor):
        ...         ctx.factor = factor
        ...         return x * factor
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * ctx.factor, None
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> Scale.apply(x, 3.0).sum().backward()
        >>> x.grad.tolist()
        [3.0, 3.0]
    """

    # defaults; what a call sets lies in its __dict__
    to_save: tuple | None = None
    saved_for_forward: tuple | None = None
    dirty_tensors: tuple | None = None
    non_differentiable: tuple | None = None
    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()
    _saved: tuple | None = ()  # None when freed
    _versions: tuple = ()
    _node: Any = None  # weak reference to the Node, which holds this ctx

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors (or None) for backward, which reads them as ``ctx.saved_tensors``.

        Use it rather than attributes for inputs and outputs: it makes no reference cycle, goes through
        saved-tensor hooks, and finds out in backward whether they were changed in place. Tensors that are
        neither inputs nor outputs of forward are constants to double backward. The last call counts.

        Args:
            tensors: what is kept, in this order.

        Raises:
            TypeError: when forward returns, for what is neither a tensor nor None.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor) -> None:
        """Keep tensors for :meth:`Function.jvp`, which reads them as ``ctx.saved_tensors``.

        Args:
            tensors: what is kept, in this order; None is allowed.

        Raises:
            AssertionError: something else is given.
        """
        for tensor in tensors:
            assert isinstance(tensor, Tensor) or tensor is None, (
                "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on "
                "ctx."
            )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs forward changes in place. They must be returned, and become outputs themselves.

        Args:
            args: the inputs. The last call counts.

        Example:
            >>> class Double_(gradlib.autograd.Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.mark_dirty(x)
            ...         return x.mul_(2)
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         return grad * 2
            >>> y = gradlib.ones(2, requires_grad=True) * 3
            >>> Double_.apply(y) is y, y.tolist()
            (True, [6.0, 6.0])
        """
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs are not differentiable; backward gets zeros for them, or None.

        Which of the two says `set_materialize_grads`. Integer outputs never are differentiable.

        Args:
            args: the outputs. The last call counts.

        Example:
            >>> class Sign(gradlib.autograd.Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         out = x.sign()
            ...         ctx.mark_non_differentiable(out)
            ...         return out
            >>> Sign.apply(gradlib.ones(2, requires_grad=True)).requires_grad
            False
        """
        self.non_differentiable = args

    def mark_shared_storage(self, *pairs) -> None:
        """Do nothing but warn (FutureWarning): storage that tensors share is tracked without being told.

        Accepted for old code.
        """
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note that "
            "calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether gradients (and tangents) that are undefined arrive as zeros, or as None.

        Args:
            value: True (the default) for zeros, False for None, which saves work where one is not needed.

        Raises:
            TypeError: it is no bool.
        """
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got "
                f"({type(value).__name__}), but expected (bool)"
            )
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple:
        """What :meth:`save_for_backward` kept, as a tuple; in jvp what :meth:`save_for_forward` kept.

        Raises:
            RuntimeError: one of them was changed in place since, or the graph was freed by a backward.
        """
        if self.saved_for_forward is not None:
            return self.saved_for_forward
        kept = self._saved
        if kept is None:
            raise RuntimeError(errors.second_backward(self._node()))
        out = []
        for i, version in enumerate(self._versions):
            value = kept[i]
            if version >= 0:
                counter = value._ver
                if (counter if type(counter) is int else counter.version) != version:
                    raise saved.modified(self._node(), f"saved_tensors[{i}]", value, version)
            elif version != saved.DIRECT:
                value = value.tensor(self._node and self._node(), i)
            out.append(value)
        return tuple(out)

    @property
    def saved_variables(self) -> tuple:
        """The old name of :attr:`saved_tensors`.

        It warns (DeprecationWarning); results and errors are the same.
        """
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    def __getattr__(self, name: str):
        if name in NODE_NAMES and self._node is not None and self._node() is not None:
            return getattr(self._node(), name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __reduce_ex__(self, protocol):
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")
