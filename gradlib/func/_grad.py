"""grad, vjp, jvp: derivatives of functions as functions.

The function runs on private aliases of its arguments, with recording switched on. Results stay connected to what is
outside (an argument that requires grad, a tensor that the function closes over, a transform around this one), and only
then the derivative itself is recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..autograd import differentiate, forward_ad
from ..op import vmap
from ..op.tangents import set_tangent, tangent_of
from ..operators.create.filled import zeros_like
from ..tape import errors, modes
from ..tape.memory import key
from ..tape.modes import INFERENCE, NO_GRAD, state
from ..tape.pytree import flatten, tree_map, unflatten
from ..tape.storage import bump
from ..tape.tensor import Tensor
from ._recording import UNRECORDED, Constants, Recording, barring

JVP = "jvp(f, primals, tangents)"
ALIASED = (
    "jvp inside jvp: a tensor is used after the function has written to its memory through another one. This is not "
    "supported. Please clone() one of them first."
)
HALF_CONSTANT = (
    "jvp inside jvp: the result depends on what was computed under no_grad, and is to be differentiated in reverse "
    "mode, too. This is not supported."
)


def outside_inference(run: Callable) -> Callable:
    """`run`, so that the tensors that it makes for itself can be recorded also inside inference_mode."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with modes.Flag(INFERENCE, False):
            return run(*args, **kwargs)

    return wrapper


# -- argnums -----------------------------------------------------------------------------------------------------------


def positions_of(argnums: Any, n: int) -> tuple[int, ...]:
    """The places of the arguments to differentiate with respect to."""
    if isinstance(argnums, int) and not isinstance(argnums, bool):
        return (_position(argnums, n),)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    if len(set(argnums)) != len(argnums):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple(_position(a, n) for a in argnums)


def _position(argnum: Any, n: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -n <= argnum < n:
        raise RuntimeError(f"Got argnum={argnum}, but only {n} positional inputs")
    return argnum % n


def replaced(args: tuple, positions: tuple[int, ...], values: Any) -> list:
    """`args` with `values` at `positions`."""
    out = list(args)
    for i, value in zip(positions, values, strict=True):
        out[i] = value
    return out


def chosen(args: tuple, argnums: Any) -> Any:
    """The arguments that `argnums` names: one value for an int, a tuple for a tuple."""
    found = tuple(args[i] for i in positions_of(argnums, len(args)))
    return found if isinstance(argnums, tuple) else found[0]


# -- reverse mode ------------------------------------------------------------------------------------------------------


def grad(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """The gradient of `func`, which returns a real scalar, as a function of the same arguments.

    Args:
        func: returns a 0-dim tensor, or (0-dim tensor, aux) with `has_aux`.
        argnums: the position(s) of the argument(s) to differentiate with respect to; nested values are fine.
        has_aux: also return what `func` returns beside its result.

    Returns:
        A function that returns gradients of the shape and structure of the argument (a tuple of them if `argnums` is
        a tuple), or (gradients, aux).

    Raises:
        RuntimeError: the result is no scalar tensor, or `argnums` does not fit.

    Example:
        >>> gradlib.func.grad(gradlib.sin)(gradlib.tensor(0.0))
        tensor(1.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


def grad_and_value(
    func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable:
    """Like :func:`grad`, but returns (gradients, value), or (gradients, (value, aux)) with `has_aux`.

    Example:
        >>> gradlib.func.grad_and_value(lambda x: (x * x).sum())(gradlib.ones(2))
        (tensor([2., 2.]), tensor(2.))
    """
    title = "grad_and_value(f)(*args)"

    @functools.wraps(func, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = Recording()
        with modes.Flag(UNRECORDED, False), run:
            places = positions_of(argnums, len(args))
            watched = [run.watch(args[i]) for i in places]
            given = replaced(args, places, watched)
            out, aux = _result(_transformed(func, *given, **kwargs), has_aux, title)
            if not isinstance(out, Tensor):
                raise RuntimeError(
                    f"{title}: Expected f(*args) to return a Tensor, got {type(out)}"
                )
            if out.dim():
                raise RuntimeError(
                    f"{title}: Expected f(*args) to return a scalar Tensor, got tensor with {out.dim()} dims. Maybe "
                    "you wanted to use the vjp or jacrev APIs instead?"
                )
            run.connect([out, *flatten(aux)[0]])
            found = run.pull([out], [None], run.connected, run.connected)
            spec = flatten(watched)[1]
            grads = tuple(unflatten(found, spec))
            value, aux = run.release(out), run.release(aux)
        result = grads if isinstance(argnums, tuple) else grads[0]
        return (result, (value, aux)) if has_aux else (result, value)

    return wrapper


def _transformed(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """The result of a function that is being differentiated: what would cut it off from its arguments can tell."""
    state.transforms += 1
    try:
        return func(*args, **kwargs)
    finally:
        state.transforms -= 1


def _result(returned: Any, has_aux: bool, title: str) -> tuple[Any, Any]:
    if not has_aux:
        return returned, ()
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            f"{title}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return returned


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """The value of `func` at `primals`, and the function that multiplies vectors by its Jacobian from the left.

    Args:
        func: returns tensors, in any nesting; or (those, aux) with `has_aux`.
        primals: where to differentiate.
        has_aux: also return what `func` returns beside its result.

    Returns:
        ``(output, vjp_fn)`` or ``(output, vjp_fn, aux)``. ``vjp_fn(cotangents)`` takes what has the structure and
        shapes of the output, and returns a tuple with what has the structure and shapes of each primal.

    Raises:
        RuntimeError: the output has leaves that are no tensors; in ``vjp_fn``: structures or shapes do not fit.

    Example:
        >>> out, vjp_fn = gradlib.func.vjp(gradlib.sin, gradlib.zeros(2))
        >>> vjp_fn(gradlib.ones(2))
        (tensor([1., 1.]),)
    """
    title = "vjp(f, *primals)"
    run = Recording()
    with modes.Flag(UNRECORDED, False), run:
        leaves, in_spec = flatten(primals)
        watched = unflatten([run.watch_one(leaf) for leaf in leaves], in_spec)
        out, aux = _result(_transformed(func, *watched), has_aux, title)
        outs, spec = flatten(out)
        _only_tensors(outs, title, out)
        for o in outs:
            if not (o.is_floating_point() or o.is_complex()):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{o.dtype}"
                )
        run.connect([*outs, *flatten(aux)[0]])
        released, aux = run.release(out), run.release(aux)
        outs = run.held(outs)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, given = flatten(cotangents)
        if given != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function."
                f" cotangents: {given.brief()}, primal output: {spec.brief()}"
            )
        if create_graph is None:
            create_graph = modes.is_grad_enabled() and (
                run.connected or any(isinstance(s, Tensor) and s._rg for s in seeds)
            )
        with modes.Flag(UNRECORDED, False):
            return unflatten(run.pull(outs, seeds, retain_graph, create_graph), in_spec)

    return (released, vjp_fn, aux) if has_aux else (released, vjp_fn)


def _only_tensors(outs: list, title: str, out: Any) -> None:
    if not outs:
        raise RuntimeError(
            f"{title}: Expected f to be a function that has non-empty output (got output = {out})"
        )
    for o in outs:
        if not isinstance(o, Tensor):
            raise RuntimeError(
                f"{title}: expected f(*primals) to return only tensors, got unsupported type {type(o)}"
            )


# -- forward mode ------------------------------------------------------------------------------------------------------


def jvp(
    func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False
) -> tuple:
    """The value of `func` at `primals`, and its derivative along `tangents`.

    Args:
        func: returns tensors, in any nesting; or (those, aux) with `has_aux`.
        primals: a tuple of the arguments.
        tangents: a tuple with the structure and shapes of `primals`.
        strict: raise if an output does not depend on the primals, instead of giving zeros.
        has_aux: also return what `func` returns beside its result.

    Returns:
        ``(output, tangents of the output)`` or ``(output, tangents, aux)``.

    Raises:
        RuntimeError: primals are no tuple or empty, structures or shapes differ, an output is no tensor.

    Example:
        >>> gradlib.func.jvp(gradlib.sin, (gradlib.zeros(2),), (gradlib.ones(2),))
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    values, spec = flatten(primals)
    vectors, given = flatten(tangents)
    if spec != given:
        raise RuntimeError(
            f"{JVP}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and tangents with structure "
            f"{given}"
        )
    for which, leaves in (("primals", values), ("tangents", vectors)):
        if not leaves:
            raise RuntimeError(f"{JVP}: Expected {which} to contain at least one Tensor.")
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(
                    f"{JVP}: Expected {which} to only contain Tensors, got {type(leaf)}"
                )

    for value, vector in zip(values, vectors, strict=True):
        if value._array.shape != vector._array.shape:
            raise RuntimeError(errors.tangent_size(value._array.shape, vector._array.shape))

    def run(leaves: list) -> tuple[list, Any, Any]:
        out, aux = _result(_transformed(func, *unflatten(leaves, spec)), has_aux, JVP)
        outs, out_spec = flatten(out)
        _only_tensors(outs, JVP, out)
        return outs, out_spec, aux

    forward = _by_duals if state.dual_level < 0 else _by_two_pullbacks
    outs, pushed, out_spec, aux = forward(run, values, vectors)
    if strict and any(t is None for t in pushed):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    with modes.Flag(INFERENCE, False):
        pushed = [zeros_like(o) if t is None else t for o, t in zip(outs, pushed, strict=True)]
    result = unflatten(outs, out_spec), unflatten(pushed, out_spec)
    return (*result, aux) if has_aux else result


def _by_duals(run: Callable, values: list, vectors: list) -> tuple:
    """jvp in forward mode."""
    if state.bits & INFERENCE or not state.forward_enabled:
        with modes.Flag(INFERENCE, False), forward_ad._set_fwd_grad_enabled(True):
            return _by_duals(run, values, vectors)
    with forward_ad.dual_level():
        # serials are never used twice: it ends with the level
        state.of_transform = state.dual_serial
        duals = [forward_ad.make_dual(v, t) for v, t in zip(values, vectors, strict=True)]
        outs, spec, aux = run(duals)
        pairs = [forward_ad.unpack_dual(o) for o in outs]
        aux = tree_map(_primal, aux)
    return [p.primal for p in pairs], [p.tangent for p in pairs], spec, aux


def _primal(value: Any) -> Any:
    if not isinstance(value, Tensor):
        raise RuntimeError(f"Expected tensors, got unsupported type {type(value)}")
    return forward_ad.unpack_dual(value).primal


class _Copies(modes.Interposer):
    """Refuses what cannot be right while a function runs on copies of its arguments.

    What it writes to a copy is not seen by other tensors on the memory of that argument before it has ended, nor the
    other way round.
    """

    lets_be = True

    def __init__(self, values: list, copies: list):
        self.groups: dict[int, set[int]] = {}  # what should be one memory, by that of each argument
        self.stale: set[int] = set()
        for value, copy in zip(values, copies, strict=True):
            own = key(value._array)
            self.groups.setdefault(own, {own}).add(key(copy._array))

    def call(self, op, args: tuple, attrs: tuple, proceed: Callable, compute: Any = None) -> Any:
        if self.stale:
            self.check(args[0] if op.variadic else args)
        return proceed()

    def call_inplace(self, op, tensor, others: tuple, attrs: tuple, proceed: Callable) -> Any:
        if self.stale:
            self.check((tensor, *others))
        place = key(tensor._array)
        for group in self.groups.values():
            if place in group:
                self.stale |= group - {place}
        if tensor._rg and tensor.is_leaf and state.keeps_recording.flag:
            # a parameter that the function initializes, say: nothing that is differentiated is written
            with modes.Flag(NO_GRAD, not any([getattr(o, "_rg", False) for o in others])):
                return proceed()
        return proceed()

    def check(self, args: Any) -> None:
        for a in args:
            if isinstance(a, Tensor) and key(a._array) in self.stale:
                raise RuntimeError(ALIASED)


def _by_two_pullbacks(run: Callable, values: list, vectors: list) -> tuple:
    """jvp inside another jvp: vjp is linear in its vector, and the derivative of that is the jvp."""
    recording = Recording(forward=True)
    with modes.Flag(UNRECORDED, False), recording:
        watched = recording.watch(values)
        given = [w.clone() for w in watched]  # it may write to its arguments
        before, interposers = state.keeps_recording, state.interposers
        constants = state.keeps_recording = before or Constants()
        state.interposers = (_Copies(values, given), *interposers)
        try:
            outs, spec, aux = run(given)
        finally:
            state.keeps_recording, state.interposers = before, interposers
        recording.connect([*outs, *flatten(aux)[0], *given])
        live = [o for o in outs if o._rg]
        seeds = [vmap.apart(zeros_like(o)).requires_grad_() for o in live]
        found: dict[int, Tensor] = {}
        if live:
            reverse = recording.connected if before is None else before.reverse
            within = constants.within(recording.writes.start) if reverse else None
            seen: list[int] = []  # nodes that were made under no_grad

            def see(seq: int) -> bool:
                if within is not None and within(seq):
                    seen.append(seq)
                return False

            with barring(see), recording.pulling():
                pulled = differentiate.grad(live, watched, seeds, True, True, allow_unused=True)
            if seen:
                raise RuntimeError(HALF_CONSTANT)
            pairs = [
                (p, t) for p, t in zip(pulled, vectors, strict=True) if p is not None and p._rg
            ]
            if pairs:
                outer = recording.connected or any(t._rg for t in vectors)
                create = outer and recording.outer_grad
                roots, given_to = zip(*pairs, strict=True)
                with recording.pulling():
                    pushed = differentiate.grad(
                        roots, seeds, given_to, True, create, allow_unused=True
                    )
                for o, p in zip(live, pushed, strict=True):
                    if p is not None:
                        found[id(o)] = p
        tangents = [found.get(id(o)) for o in outs]
        # only now: what the derivative was made of may be in that memory
        _written_back(values, given, recording)
        for alias, value in zip(given, values, strict=True):
            recording.note(alias, value)  # returned, or a view of it, it is the caller's
        released = [recording.release(o) for o in outs]
        return released, tangents, spec, recording.release(aux)


def _written_back(values: list, given: list, recording: Recording) -> None:
    """Write to the arguments `values` what a function wrote to the copies that it was given, with its history."""
    with modes.Flag(NO_GRAD, not recording.outer_grad):
        for value, copy in zip(values, given, strict=True):
            times = vmap.all_entries(copy)._version
            if times and copy.shape == value.shape:
                for _ in range(times - 1):  # each write counts, as it would without the copy
                    bump(vmap.all_entries(value))
                copy = recording.release(copy)
                if vmap.is_logical(value) or not vmap.is_logical(copy):
                    value.copy_(copy)
                    continue
                tangent = tangent_of(copy)
                value.copy_(vmap.shared_value(copy))
                if tangent is not None:
                    set_tangent(value, vmap.shared_value(tangent))


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """The value of `func` at `primals`, and the linear function that is its derivative there.

    Args:
        func: returns tensors, in any nesting.
        primals: where to differentiate.

    Returns:
        ``(output, jvp_fn)``; ``jvp_fn(*tangents)`` returns the tangents of the output. It runs `func` again, on the
        primals as constants.

    Raises:
        RuntimeError: a primal has a tangent; in ``jvp_fn``: tangents without the structure and shapes of `primals`.

    Example:
        >>> out, jvp_fn = gradlib.func.linearize(gradlib.sin, gradlib.zeros(2))
        >>> jvp_fn(gradlib.ones(2))
        tensor([1., 1.])
    """

    if any([tangent_of(p) is not None for p in flatten(primals)[0]]):
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    fixed = tree_map(lambda p: p.detach() if isinstance(p, Tensor) else p, primals)

    def jvp_fn(*tangents: Any) -> Any:
        return jvp(func, fixed, tangents)[1]

    return func(*primals), jvp_fn
