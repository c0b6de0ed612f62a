"""Jacobians, Hessians and their products with vectors, of a function given as a Python callable.

`func` takes tensors and returns a Tensor or a tuple of them. Results are nested as inputs and outputs are: a tuple of
inputs gives a tuple, a tuple of outputs another level outside. Without `create_graph` nothing that is returned
requires grad. With `strict`, an input that the result does not depend on is an error instead of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..op.tangents import tangent_of
from ..op.vmap import active, lift
from ..operators.create.filled import ones_like, zeros, zeros_like
from ..operators.create.ranges import eye
from ..operators.shape.join import stack
from ..operators.shape.reshape import alias_op as alias
from ..tape import modes
from ..tape.modes import NO_GRAD, state
from ..tape.tensor import Tensor
from . import forward_ad
from .differentiate import Rows, grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

INDEPENDENT = "The output of the user-provided function is independent of input {}. This is not allowed in strict mode."
NO_GRADIENT = {
    "outputs": "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {} is independent of the inputs of the user-provided function. "
    "This is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    "input {} is independent of the input. This is not allowed in strict mode. You should ensure that your function "
    "is twice differentiable and that the jacobian depends on the inputs (this would be violated by a linear function "
    "for example).",
    "hessian": "The hessian of the user-provided function with respect to input {} is independent of the input. This "
    "is not allowed in strict mode. You should ensure that your function is thrice differentiable and that the "
    "hessian depends on the inputs.",
}
# what is missing in strict mode, by the derivative that was computed last
MISSING = {
    "back": INDEPENDENT,
    "back_trick": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using "
    "the double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {}. This is not allowed in "
    "strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. "
    "This is not allowed in strict mode as it prevents from using the double backward trick to replace forward mode "
    "AD.",
}
CONSTANT = (
    "The {} of the user-provided function is independent of input {}. This is not allowed in strict mode when "
    "create_graph=True."
)
STRICT_VECTORIZED = (
    "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please either "
    "set `strict=False` or `vectorize=False`."
)
STRICT_FORWARD = (
    'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported together (yet). '
    'Please either set `strict=False` or `strategy="reverse-mode"`.'
)
GRAPH_FORWARD = (
    'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported together '
    '(yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
)
COMPLEX_LOOP = "grad can be implicitly created only for real scalar outputs but got {}"
FORWARD_LOOP = (
    "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
    "only implemented for `vectorize=True`."
)
STRATEGY = 'Expected strategy to be either "forward-mode" or "reverse-mode".'
V_OUTPUT = "The vector v can only be None if the user-provided function returns a single Tensor with a single element."
TRANSFORMED = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of "
    "a function being transformed by a functorch transform. With create_graph=True the result depends on what "
    "requires grad there; otherwise use those of gradlib.func."
)
V_INPUT = (
    "The vector v can only be None if the input to the user-provided function is a single Tensor "
    "with a single element."
)


# -- arguments and results -------------------------------------------------------------------------------------------


def _as_tuple(value: Any, what: str, fn: str) -> tuple[bool, tuple]:
    """Whether `value` is a tuple, and as one; TypeError unless it is made of tensors."""
    start = f"The {what} given to {fn} must be either a Tensor or a tuple of Tensors but the"
    if isinstance(value, tuple):
        for i, t in enumerate(value):
            if not isinstance(t, Tensor):
                raise TypeError(f"{start} value at index {i} has type {type(t)}.")
        return True, value
    if not isinstance(value, Tensor):
        raise TypeError(f"{start} given {what} has type {type(value)}.")
    return False, (value,)


def _fresh(tensors: Sequence[Tensor], create_graph: bool, need_graph: bool = True) -> tuple:
    """Tensors of our own to differentiate with respect to; with create_graph, in the graph of those given.

    RuntimeError where a transform differentiates by one of them, which would be cut off from it.
    """
    kept = [create_graph and (t._rg or not need_graph) for t in tensors]
    if state.transforms:
        for t, keeps in zip(tensors, kept, strict=True):
            if not keeps and (t._rg or tangent_of(t) is not None):
                raise RuntimeError(TRANSFORMED)
    cut = lift if create_graph and active() is not None else Tensor.detach
    return tuple(
        alias.call(t) if keeps else cut(t).requires_grad_(need_graph)
        for t, keeps in zip(tensors, kept, strict=True)
    )


def _call(func: Callable, inputs: tuple, fn: str, strict: bool) -> tuple[bool, tuple]:
    is_tuple, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", fn)
    _require_graph(outputs, "outputs", strict)
    return is_tuple, outputs


def _scalar(func: Callable, inputs: tuple, fn: str, strict: bool) -> tuple:
    """The output of a function of which a Hessian exists: one tensor with one element."""
    is_tuple, outputs = _call(func, inputs, fn, strict)
    if is_tuple:
        raise RuntimeError(f"The function given to {fn} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {fn} should contain a single element"
        )
    return outputs


def _vector(v: Any, refs: tuple, is_tuple: bool, fn: str, create_graph: bool, text: str) -> tuple:
    """The vector `v` of a product, checked against the tensors it goes with; ones for a single element."""

    if v is None:
        if len(refs) != 1 or refs[0].numel() != 1:
            raise RuntimeError(text)
        return (ones_like(refs[0]),)
    vectors = _fresh(_as_tuple(v, "v", fn)[1], create_graph, need_graph=False)
    if is_tuple and len(vectors) != len(refs):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(refs)} but got {len(vectors)}."
        )
    if not is_tuple and len(vectors) != 1:
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (have, want) in enumerate(zip(vectors, refs, strict=True)):
        if have.shape != want.shape:
            entry = f"Entry {i} in " if is_tuple else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be {want.shape} but got {have.shape}."
            )
    return vectors


def _require_graph(tensors: Sequence[Tensor | None], kind: str, strict: bool) -> None:
    for i, t in enumerate(tensors if strict else ()):
        if t is None:
            raise RuntimeError(INDEPENDENT.format(i))
        if not t.requires_grad:
            raise RuntimeError(NO_GRADIENT[kind].format(i))


def _grad(outputs: tuple, inputs: tuple, vectors: tuple | None, create_graph: bool) -> tuple:
    """autograd.grad that passes over outputs without graph; None for unused inputs."""
    vectors = vectors or (None,) * len(outputs)
    pairs = [
        (o, v) for o, v in zip(outputs, vectors, strict=True) if o is not None and o.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    outs, given = zip(*pairs, strict=True)
    return grad(outs, inputs, given, create_graph=create_graph, allow_unused=True)


def _filled(grads: tuple, refs: tuple, strict: bool, create_graph: bool, stage: str) -> tuple:
    """Zeros for what is None; errors in strict mode."""

    found = []
    for i, (g, ref) in enumerate(zip(grads, refs, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(MISSING[stage].format(i))
            g = zeros_like(ref)
        elif strict and create_graph and not g.requires_grad:
            raise RuntimeError(CONSTANT.format("hessian" if "double" in stage else "jacobian", i))
        found.append(g)
    return tuple(found)


def _result(values: tuple, is_tuple: bool, create_graph: bool):
    if not create_graph:
        values = tuple(v.detach() for v in values)
    return values if is_tuple else values[0]


def _zeros(tensors: tuple) -> tuple:

    return tuple(zeros_like(t).requires_grad_() for t in tensors)


# -- products --------------------------------------------------------------------------------------------------------


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """The vector-Jacobian product of a function: its outputs, and v^T J in the shapes of the inputs.

    Args:
        func: takes the inputs as Tensors, returns a Tensor or a tuple of them.
        inputs: a Tensor or a tuple of them.
        v: of the shapes of the outputs; may be left out for a single element.
        create_graph: record the computation, to differentiate it again.
        strict: refuse an input that the outputs do not depend on, instead of zeros.

    Returns:
        (outputs, product).

    Raises:
        TypeError: inputs or outputs are no tensors.
        RuntimeError: `v` does not fit, or is missing; or by `strict`.

    Example:
        >>> _, product = vjp(lambda x: x.exp().sum(dim=1), gradlib.zeros(4, 2), gradlib.ones(4))
        >>> product.shape
        torch.Size([4, 2])
    """
    with modes.Flag(NO_GRAD, False):
        many, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _fresh(inputs, create_graph)
        many_out, outputs = _call(func, inputs, "vjp", strict)
        vectors = _vector(v, outputs, many_out, "vjp", create_graph, V_OUTPUT)
        found = _filled(
            _grad(outputs, inputs, vectors, create_graph), inputs, strict, create_graph, "back"
        )
    return _result(outputs, many_out, create_graph), _result(found, many, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """The Jacobian-vector product of a function: its outputs, and J v in the shapes of the outputs.

    Computed by differentiating the vector-Jacobian product with respect to its vector, so it needs no forward-mode
    formulas. `gradlib.func.jvp` does it in forward mode. Arguments and errors as in `vjp`.

    Args:
        v: of the shapes of the inputs; may be left out for a single element.

    Example:
        >>> _, product = jvp(lambda x: x**2, gradlib.tensor([1.0, 2.0]), gradlib.ones(2))
        >>> product
        tensor([2., 4.])
    """
    with modes.Flag(NO_GRAD, False):
        many, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _fresh(inputs, create_graph)
        vectors = _vector(v, inputs, many, "jvp", create_graph, V_INPUT)
        many_out, outputs = _call(func, inputs, "jvp", strict)
        seeds = _zeros(outputs)
        pulled = _grad(outputs, inputs, seeds, True)
        _require_graph(pulled, "grad_inputs", strict)
        pushed = _grad(pulled, seeds, vectors, create_graph)
        found = _filled(pushed, outputs, strict, create_graph, "back_trick")
    return _result(outputs, many_out, create_graph), _result(found, many_out, create_graph)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """The vector-Hessian product of a function with a single-element result: the result, and v^T H.

    Arguments and errors as in `vjp`.

    Args:
        v: of the shapes of the inputs, which the product has too; may be left out for a single element.

    Raises:
        RuntimeError: the result is no single Tensor with one element.

    Example:
        >>> _, product = vhp(lambda x: (x**3).sum(), gradlib.tensor([1.0, 2.0]), gradlib.ones(2))
        >>> product
        tensor([ 6., 12.])
    """
    with modes.Flag(NO_GRAD, False):
        many, inputs = _as_tuple(inputs, "inputs", "vhp")
        inputs = _fresh(inputs, create_graph)
        vectors = _vector(v, inputs, many, "vhp", create_graph, V_INPUT)
        outputs = _scalar(func, inputs, "vhp", strict)
        jac = _grad(outputs, inputs, None, True)
        _require_graph(jac, "jacobian", strict)
        found = _grad(jac, inputs, vectors, create_graph)
        found = _filled(found, inputs, strict, create_graph, "double_back")
    return _result(outputs, False, create_graph), _result(found, many, create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The Hessian-vector product of a function with a single-element result: the result, and H v.

    Equal to :func:`vhp` for twice continuously differentiable functions, which is cheaper. Arguments, errors as there.

    Example:
        >>> _, product = hvp(lambda x: (x**3).sum(), gradlib.tensor([1.0, 2.0]), gradlib.ones(2))
        >>> product
        tensor([ 6., 12.])
    """
    with modes.Flag(NO_GRAD, False):
        many, inputs = _as_tuple(inputs, "inputs", "hvp")
        inputs = _fresh(inputs, create_graph)
        vectors = _vector(v, inputs, many, "hvp", create_graph, V_INPUT)
        outputs = _scalar(func, inputs, "hvp", strict)
        jac = _grad(outputs, inputs, None, True)
        _require_graph(jac, "jacobian", strict)
        seeds = _zeros(inputs)
        pulled = _grad(jac, inputs, seeds, True)
        _require_graph(pulled, "hessian", strict)
        found = _grad(pulled, seeds, vectors, create_graph)
        found = _filled(found, inputs, strict, create_graph, "double_back_trick")
    return _result(outputs, False, create_graph), _result(found, many, create_graph)


# -- matrices --------------------------------------------------------------------------------------------------------


def jacobian(
    func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"
):
    """The Jacobian of `func`: of shape output + input, ``J[i][j]`` for output i and input j if there are tuples.

    Args:
        func: takes the inputs as Tensors, returns a Tensor or a tuple of them.
        inputs: a Tensor or a tuple of them.
        create_graph: record the computation, to differentiate it again.
        strict: refuse an input that the outputs do not depend on, instead of zeros.
        vectorize: compute the rows as one batch; the same result.
        strategy: "reverse-mode" (a backward for each element of the outputs), or "forward-mode" (a forward for each
            element of the inputs), which needs ``vectorize=True``.

    Raises:
        TypeError: inputs or outputs are no tensors.
        AssertionError: another strategy.
        NotImplementedError: forward mode with `create_graph`, or without `vectorize`.
        RuntimeError: by `strict`; in forward mode always, if it is given.

    Example:
        >>> jacobian(lambda x: x.exp().sum(dim=1), gradlib.rand(2, 3)).shape
        torch.Size([2, 2, 3])
    """
    assert strategy in ("forward-mode", "reverse-mode"), (
        f'{STRATEGY} Hint: If your function has more outputs than inputs, "forward-mode" tends to be more performant. '
        'Otherwise, prefer to use "reverse-mode".'
    )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(GRAPH_FORWARD)
        return _forward_jacobian(func, inputs, strict, vectorize)
    with modes.Flag(NO_GRAD, False):
        many, inputs = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _fresh(inputs, create_graph)
        many_out, outputs = _call(func, inputs, "jacobian", strict)
        if vectorize and strict:
            raise RuntimeError(STRICT_VECTORIZED)
        rows = tuple(
            _rows(i, o, inputs, create_graph, strict, vectorize) for i, o in enumerate(outputs)
        )
    result = tuple(_result(row, many, create_graph) for row in rows)
    return result if many_out else result[0]


def _rows(
    i: int, out: Tensor, inputs: tuple, create_graph: bool, strict: bool, vectorize: bool
) -> tuple:
    """The Jacobian of one output with respect to each input."""

    n = out.numel()
    columns: Any = [[] for _ in inputs]
    if n and out.requires_grad:
        vectors = _basis(out)
        if vectorize:
            columns = grad(
                (out,),
                inputs,
                (vectors,),
                True,
                create_graph,
                allow_unused=True,
                is_grads_batched=True,
            )
        elif out.is_complex():
            raise RuntimeError(COMPLEX_LOOP.format(out.dtype))
        else:
            row = Rows(out, inputs, create_graph)
            for k in range(n):
                for j, g in enumerate(row(vectors[k])):
                    columns[j].append(_strict_entry(g, i, j, create_graph) if strict else g)
    result = []
    for t, column in zip(inputs, columns, strict=True):
        if isinstance(column, list):
            made = [
                zeros(t.shape, dtype=t.dtype, device=t.device) if g is None else g for g in column
            ]
            column = stack(made) if made else None
        if column is None:
            column = zeros((n, *t.shape), dtype=t.dtype, device=t.device)
        result.append(column.reshape((*out.shape, *t.shape)))
    return tuple(result)


def _strict_entry(g: Tensor | None, i: int, j: int, create_graph: bool) -> Tensor:
    if g is None:
        raise RuntimeError(
            f"Output {i} of the user-provided function is independent of input {j}. This is not allowed in strict mode."
        )
    if create_graph and not g.requires_grad:
        raise RuntimeError(CONSTANT.format("jacobian", j))
    return g


def _basis(tensor: Tensor) -> Tensor:
    """The unit vectors of the space of `tensor`, along a new first dimension."""

    n = tensor.numel()
    return eye(n, dtype=tensor.dtype, device=tensor.device).reshape(n, *tensor.shape)


def _forward_jacobian(func: Callable, inputs: Any, strict: bool, vectorize: bool):
    """One forward with tangents for each element of the inputs."""

    if strict:
        raise RuntimeError(STRICT_FORWARD)
    many, inputs = _as_tuple(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(FORWARD_LOOP)
    many_out, outputs = False, ()
    columns: list[list[list[Tensor]]] = []  # for each input, direction and output
    for j, t in enumerate(inputs):
        directions = _basis(t)
        columns.append([])
        for k in range(t.numel()):
            with forward_ad.dual_level():
                given = list(inputs)
                given[j] = forward_ad.make_dual(t, directions[k])
                many_out, outputs = _as_tuple(
                    func(*given), "outputs of the user-provided function", "jacobian"
                )
                duals = [forward_ad.unpack_dual(o) for o in outputs]
            columns[j].append([zeros_like(p) if t is None else t for p, t in duals])
    if not outputs:  # no input has elements
        many_out, outputs = _as_tuple(
            func(*inputs), "outputs of the user-provided function", "jacobian"
        )
    result = []
    for i, out in enumerate(outputs):
        row = []
        for t, directions in zip(inputs, columns, strict=True):
            if directions:
                block = stack([d[i] for d in directions], -1)
            else:
                block = zeros_like(out.detach()).unsqueeze(-1)[..., :0]
            row.append(block.reshape((*out.shape, *t.shape)))
        result.append(tuple(row) if many else row[0])
    return tuple(result) if many_out else result[0]


def hessian(
    func,
    inputs,
    create_graph=False,
    strict=False,
    vectorize=False,
    outer_jacobian_strategy="reverse-mode",
):
    """The Hessian of a function with a single-element result; ``H[i][j]`` of shape input i + input j for a tuple.

    Arguments and errors as in `jacobian`.

    Args:
        vectorize: compute the rows as one batch; the same result.
        outer_jacobian_strategy: "forward-mode" computes it forward over reverse (with ``vectorize=True``).

    Raises:
        RuntimeError: the result is no single Tensor with one element.

    Example:
        >>> hessian(lambda x: (x**3).sum(), gradlib.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    many, inputs = _as_tuple(inputs, "inputs", "hessian")
    assert outer_jacobian_strategy in ("forward-mode", "reverse-mode"), STRATEGY

    def scalar(*values):
        (out,) = _scalar(func, values, "hessian", strict)
        return out.reshape(())

    def gradient(*values):
        if outer_jacobian_strategy == "forward-mode":
            values = tuple(t.requires_grad_() for t in values)
        jac: Any = jacobian(scalar, values, create_graph=True)
        _require_graph(jac, "jacobian", strict)
        return jac

    result = jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if many else result[0][0]
