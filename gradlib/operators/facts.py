"""Questions about tensors as functions: is_tensor, numel, result_type and others."""

from __future__ import annotations

import builtins

from ..op.expose import PUBLIC, function
from ..op.interpret import common_dtype
from ..op.plain_numbers import is_number
from ..tape import dtypes
from ..tape.tensor import Tensor
from ..tape.untyped import storage_in


@function("is_tensor")
def is_tensor(obj) -> builtins.bool:
    """Whether `obj` is a Tensor, or an instance of a subclass of it.

    Args:
        obj: anything.

    Returns:
        A bool.

    Example:
        >>> gradlib.is_tensor(gradlib.ones(1)), gradlib.is_tensor(1.0)
        (True, False)
    """
    return isinstance(obj, Tensor)


@function("is_storage")
def is_storage(obj) -> builtins.bool:
    """Whether `obj` is a storage: the memory of a tensor, as ``untyped_storage()`` or ``storage()`` gives it.

    Args:
        obj: anything.

    Returns:
        A bool.

    Example:
        >>> gradlib.is_storage(gradlib.ones(1).untyped_storage())
        True
    """
    return storage_in(obj) is not None


@function("numel")
def numel(input) -> builtins.int:
    """The number of elements.

    Args:
        input: a tensor of any shape.

    Returns:
        An int, the product of all lengths; 1 for a tensor without dimensions.

    Raises:
        TypeError: no tensor.

    Example:
        >>> gradlib.numel(gradlib.zeros(2, 3))
        6
    """
    return input._array.size


@function("is_signed")
def is_signed(input) -> builtins.bool:
    """Whether the dtype of `input` holds negative numbers: all but bool and unsigned integers do.

    Args:
        input: a tensor.

    Returns:
        A bool.

    Raises:
        TypeError: no tensor.

    Example:
        >>> gradlib.is_signed(gradlib.zeros(1, dtype=gradlib.uint8))
        False
    """
    return input.is_signed()


@function("is_inference")
def is_inference(input) -> builtins.bool:
    """Whether `input` was made in inference mode: it can neither be saved for a gradient nor written to outside.

    Args:
        input: a tensor.

    Returns:
        A bool.

    Raises:
        TypeError: no tensor.

    Example:
        >>> gradlib.is_inference(gradlib.zeros(1))
        False
    """
    return input.is_inference()


@function("is_same_size")
def is_same_size(input, other) -> builtins.bool:
    """Whether two tensors have the same shape.

    Args:
        input, other: tensors.

    Returns:
        A bool.

    Raises:
        TypeError: no tensor.

    Example:
        >>> gradlib.is_same_size(gradlib.zeros(2, 1), gradlib.zeros(2))
        False
    """
    return input._array.shape == other._array.shape


@function("get_device")
def get_device(input) -> builtins.int:
    """The number of the CUDA device that holds `input`.

    Args:
        input: a tensor.

    Returns:
        An int; -1 for host memory.

    Raises:
        TypeError: no tensor.

    Example:
        >>> gradlib.get_device(gradlib.zeros(1))
        -1
    """
    return input.get_device()


@function("typename")
def typename(obj) -> str:
    """The name of the type of a tensor, or of any other object.

    Args:
        obj: anything.

    Returns:
        A str: "torch.FloatTensor" and the like, else the module and the name of the class.

    Example:
        >>> gradlib.typename(gradlib.zeros(1))
        'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = getattr(kind, "__module__", "")
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


@function("result_type")
def result_type(tensor1, tensor2) -> dtypes.dtype:
    """The dtype that an arithmetic operation on two tensors or numbers would have.

    Args:
        tensor1, tensor2: tensors or Python numbers. Tensors without dimensions and numbers count only where they are
            of a higher kind (bool < integers < floating < complex).

    Returns:
        A dtype.

    Example:
        >>> gradlib.result_type(gradlib.tensor([1]), 1.5)
        torch.float32
    """
    for i, x in enumerate((tensor1, tensor2)):
        if not isinstance(x, Tensor) and not is_number(x):
            raise TypeError(
                f"result_type(): argument 'tensor{i + 1}' (position {i + 1}) must be Tensor, not {type(x).__name__}"
            )
    return common_dtype((tensor1, tensor2))


@function("vander")
def vander(x, N=None, increasing=False):
    """The matrix of powers of the elements of a vector.

    Args:
        x: a vector.
        N: how many powers; as many as elements if None.
        increasing: whether the powers grow from left to right.

    Returns:
        A matrix with a row for each element.

    Raises:
        RuntimeError: no vector, or a negative N.

    Example:
        >>> gradlib.vander(gradlib.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [4, 2, 1],
                [9, 3, 1]])
    """
    if x._array.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x._array.size if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    if not n:
        return x.new_empty((x._array.size, 0), dtype=dtypes.promote(x.dtype, dtypes.int64))
    x = x.to(dtypes.promote(x.dtype, dtypes.int64))
    powers = PUBLIC["ones_like"](x).unsqueeze(1)
    if n > 1:
        factors = x.unsqueeze(1).expand(x._array.size, n - 1)
        powers = PUBLIC["cat"]([powers, factors.cumprod(1)], 1)
    return powers if increasing else powers.flip(1)


@function("detach")
def detach(input):
    """The same memory outside of the graph.

    Args:
        input: a tensor.

    Returns:
        A tensor that does not require grad and shares memory and version counter with `input`.

    Example:
        >>> gradlib.detach(gradlib.ones(1, requires_grad=True))
        tensor([1.])
    """
    return input.detach()
