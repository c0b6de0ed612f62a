"""backward() and grad(): argument checks in front of the engine."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ..op.vmap import BatchLevel, apart
from ..operators.create.filled import ones_like, zeros_like
from ..tape import engine, handed
from ..tape.accumulation import keep_gradient
from ..tape.arrays import backend_on
from ..tape.modes import FORWARD_AD, shared, state
from ..tape.node import AccumulateGrad, Node, edge, leaf_edge, unrecorded_edge
from ..tape.tensor import Tensor

__all__ = ["backward", "grad"]

NO_GRAD_FN = "element {} of tensors does not require grad and does not have a grad_fn"


def backward(
    tensors,
    grad_tensors=None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables=None,
    inputs=None,
) -> None:
    """Add the sum of the gradients of `tensors` with respect to the graph's leaves into their ``.grad``.

    Args:
        tensors: a Tensor, a GradientEdge or a sequence of them.
        grad_tensors: gradient for each of `tensors`, of its shape and dtype; None for tensors with one element.
        retain_graph: keep saved tensors for another backward; defaults to `create_graph`.
        create_graph: record the computation of the gradients, to differentiate it again.
        grad_variables: deprecated name of `grad_tensors`.
        inputs: accumulate only into these tensors (leaves or not).

    Example:
        >>> x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> gradlib.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 4.])
    """
    if state.transforms:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
            "functorch.vjp instead or call backward() outside of functorch transforms."
        )
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            category=FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    given_inputs = None
    if inputs is not None:
        given_inputs = _as_tuple(inputs)
        if not given_inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    outputs = _as_tuple(tensors)
    keep_graph = create_graph if retain_graph is None else retain_graph
    edges, grads = _roots(outputs, _as_grads(grad_tensors, len(outputs)), create_graph)
    if create_graph and any(e[0] is not None for e in edges):
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
            "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to "
            "avoid this. If you have to use this function, make sure to reset the .grad fields of your parameters to "
            "None after use to break the cycle and avoid the leak.",
            UserWarning,
            stacklevel=2,
        )
    if given_inputs is None:
        engine.run_backward(edges, grads, keep_graph, create_graph, accumulate=True)
        return
    targets = [_input_edge(t) for t in given_inputs]
    found = engine.run_backward(edges, grads, keep_graph, create_graph, targets, accumulate=True)
    for tensor, (node, _), value in zip(given_inputs, targets, found, strict=True):
        if (
            isinstance(tensor, Tensor)
            and not isinstance(node, AccumulateGrad)
            and value is not None
            and not tensor.retains_grad  # which has added it
        ):
            keep_gradient(tensor, value, create_graph)
    for tensor in given_inputs:
        if isinstance(tensor, Tensor) and not tensor.is_leaf:
            tensor.retain_grad()  # from now on
            tensor._retain = tensor._retain or False


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """The sum of the gradients of `outputs` with respect to each of `inputs`, as a tuple; no ``.grad`` is touched.

    Args:
        outputs: a Tensor, a GradientEdge or a sequence of them.
        inputs: what to differentiate with respect to: Tensors that require grad, or GradientEdges.
        grad_outputs: the vector of the vector-Jacobian product for each output; None for outputs with one element.
        retain_graph: keep saved tensors for another backward; defaults to `create_graph`.
        create_graph: record the computation, to differentiate it again.
        only_inputs: deprecated; False also accumulates into the ``.grad`` of all other leaves.
        allow_unused: give None for inputs that the outputs do not depend on, instead of an error.
        is_grads_batched: the first dimension of each of `grad_outputs` is a batch; results have it too.
        materialize_grads: zeros instead of None for unused inputs.

    Example:
        >>> x = gradlib.tensor(3.0, requires_grad=True)
        >>> gradlib.autograd.grad(x**3, x)
        (tensor(27.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    allow_unused = bool(allow_unused or materialize_grads)
    outs = (outputs,) if outputs.__class__ is Tensor else _as_tuple(outputs)
    ins = (inputs,) if inputs.__class__ is Tensor else _as_tuple(inputs)
    if not ins:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep_graph = create_graph if retain_graph is None else retain_graph
    grads = _as_grads(grad_outputs, len(outs))
    if is_grads_batched:
        return _batched(outs, ins, grads, keep_graph, create_graph, allow_unused, materialize_grads)
    edges, grads = _roots(outs, grads, create_graph)
    if materialize_grads and not all([isinstance(t, Tensor) for t in ins]):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    targets = [_input_edge(t) for t in ins]
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated; only_inputs=False accumulates into the .grad of all other leaves, "
            "use autograd.backward for that.",
            FutureWarning,
            stacklevel=2,
        )
        engine.run_backward(
            edges, list(grads), True, create_graph, _other_leaves(edges, targets), accumulate=True
        )
    found: list[Any] = engine.run_backward(edges, grads, keep_graph, create_graph, targets)
    for i, value in enumerate(found):
        if value is None:
            if not allow_unused:
                raise RuntimeError(
                    f"The differentiated Tensor at index {i} appears to not have been used in the graph. Set "
                    "allow_unused=True if this is the desired behavior."
                )
            if materialize_grads:
                found[i] = _zeros(ins[i], create_graph)
    return tuple(found)


class Rows:
    """The gradients of `out` for one vector after another: what they have in common is worked out once.

    The graph is kept; gradients of inputs that `out` does not depend on are None.
    """

    def __init__(self, out: Tensor, inputs: Sequence[Tensor], create_graph: bool):
        self.out, self.create_graph = out, create_graph
        self.root, self.targets = _input_edge(out), [_input_edge(t) for t in inputs]
        self.plan: list = []

    def __call__(self, vector: Tensor) -> tuple:
        grad = _gradient(self.out, vector, 0, self.create_graph)
        return tuple(
            engine.run_backward(
                [self.root], [grad], True, self.create_graph, self.targets, plan=self.plan
            )
        )


def _zeros(tensor: Any, create_graph: bool) -> Tensor:

    if not isinstance(tensor, Tensor):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    return zeros_like(tensor, requires_grad=create_graph)


def _other_leaves(edges, targets) -> list[tuple[Node, int]]:
    """All leaves reached from `edges` that are not among `targets`."""
    seen: set[Node] = set()
    stack = [node for node, _ in edges]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [t for t in node.targets() if t is not None]
    return [(n, 0) for n in seen if isinstance(n, AccumulateGrad) and (n, 0) not in targets]


def _batched(outs, ins, grads, keep_graph, create_graph, allow_unused, materialize_grads) -> tuple:
    """The gradients for each entry of a batch of `grads` (first dimension), in one pass."""
    sizes = {g.shape[0] if g is not None and g.dim() else None for g in grads}
    for out, g in zip(outs, grads, strict=True):
        if g is None and not out.dim():
            raise ValueError(
                "is_grads_batched=True needs `grad_outputs` whose first dimension is the batch, but got none for a "
                "scalar output"
            )
        if g is None or not g.dim() or g.shape[1:] != out.shape or len(sizes) != 1:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output has a shape of {None if g is None else g.shape} and "
                f"output has a shape of {out.shape}."
            )
    n: Any = sizes.pop()
    options = create_graph, True, allow_unused, False, False
    if n:
        found = _at_once(n, outs, ins, grads, keep_graph, options)
    else:  # one row of zeros tells the shapes
        rows = [g.new_zeros((1, *g.shape[1:])) for g in grads]
        found = _at_once(1, outs, ins, rows, keep_graph, options)
        found = tuple([None if g is None else g.narrow(0, 0, 0) for g in found])
    if materialize_grads:  # those have no batch
        found = tuple(
            _zeros(t, create_graph) if g is None else g for g, t in zip(found, ins, strict=True)
        )
    return found


def _at_once(n: int, outs, ins, grads, keep_graph: bool, options: tuple) -> tuple:
    level = BatchLevel(n, "error")
    with level.running():
        found = grad(outs, ins, [level.entry(g, 0) for g in grads], True, *options)
    if not keep_graph:
        _release((_input_edge(out)[0] for out in outs), {_input_edge(t)[0] for t in ins})
    return tuple(None if g is None else level.result(g, 0) for g in found)


def _release(roots: Iterable[Node], ends: set[Node]) -> None:
    """Free the saved tensors of all nodes between `roots` and `ends`, as a pass that does not keep the graph does."""
    users: dict[Node, list[Node]] = {node: [] for node in roots}
    stack = list(users)
    while stack:
        node = stack.pop()
        for target in node.targets():
            if target is None:
                continue
            known = users.get(target)
            if known is None:
                users[target] = [node]
                stack.append(target)
            else:
                known.append(node)
    stack, freed = [u for end in ends for u in users.get(end, ())], set()
    while stack:
        node = stack.pop()
        if node not in freed:
            freed.add(node)
            node.release()
            stack += users[node]


def _as_tuple(value) -> tuple:
    if isinstance(value, Tensor) or (isinstance(value, tuple) and hasattr(value, "output_nr")):
        return (value,)
    return tuple(value)


def _as_grads(value, n: int) -> list:
    if value is None:
        return [None] * n
    grads = [value] if isinstance(value, Tensor) else list(value)
    if len(grads) != n:
        raise RuntimeError(f"got {n} tensors and {len(grads)} gradients")
    return grads


def _input_edge(value) -> tuple[Node, int]:
    if isinstance(value, Tensor):
        if not value._rg:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        if value._fn is not None:
            return value._fn, value._nr
        node, nr = unrecorded_edge(value)
        if node is None:  # a view made without grad, which nothing leads to
            node, nr = leaf_edge(value)
    elif not hasattr(value, "output_nr"):
        raise RuntimeError(
            f"all inputs have to be Tensors or GradientEdges, but got {type(value).__name__}"
        )
    else:
        node, nr = value.node, value.output_nr
        nr = nr if node.n_out == 1 else nr + 1
    assert node is not None
    return node, nr


def _roots(outputs: tuple, grads: Sequence, create_graph: bool) -> tuple[list, list]:
    """Edges to start from, and a checked gradient for each."""
    edges, checked = [], []
    for i, (out, g) in enumerate(zip(outputs, grads, strict=True)):
        if not isinstance(out, Tensor):
            if not hasattr(out, "output_nr"):
                raise AssertionError("Expected output to be a torch.Tensor")
            edges.append(_input_edge(out))
            if g is None and getattr(out, "one", None) is not None:
                g = out.one.clone()  # a leaf may keep it
            if g is None:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            checked.append(g)
            continue
        found = edge(out)
        if found[0] is None:  # or it requires grad as a view does that was made without
            raise RuntimeError(NO_GRAD_FN.format(i))
        edges.append(found)
        checked.append(_gradient(out, g, i, create_graph))
    return edges, checked


def _gradient(out: Tensor, g, i: int, create_graph: bool) -> Tensor:
    array = out._array
    if g is None:
        if array.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if array.dtype.kind == "c":
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {out.dtype}"
            )
        if array.__class__ is ndarray and not array.ndim:
            return Tensor._make(np.array(1, array.dtype))
        if shared.subclasses is not None and shared.subclasses.among((out,)):
            return shared.subclasses.made(ones_like, out)

        xp = backend_on(out.device)
        return Tensor._make(xp.ones(array.shape, array.dtype))
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g._array.shape != array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {out.shape}."
        )
    if g._array.dtype is not array.dtype:
        if (g._array.dtype.kind == "c") != (array.dtype.kind == "c"):
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. "
                f"Mismatch in dtype: grad_output[{i}] has a dtype of {g.dtype} and output[{i}] has a dtype of "
                f"{out.dtype}."
            )
        if g._array.dtype != array.dtype:
            g = g.to(out.dtype)
    here = g._array.__class__ is ndarray and array.__class__ is ndarray
    if not here and g.device != out.device:
        raise RuntimeError(f"grad_output[{i}] is on {g.device} and output[{i}] is on {out.device}")
    return g if create_graph or state.bits & FORWARD_AD else apart(g) if g._rg else g


handed.over(backward, grad)
