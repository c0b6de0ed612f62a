"""The recorder's part for ``backward()``: the engine's loop, with each gradient formula written down as it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..op import formulas, overlays, spreading
from ..op.inplace import CopySlices
from ..op.signature import parameters
from ..tape import modes, views
from ..tape.arrays import backend_for
from ..tape.dtypes import HALVES
from ..tape.engine import GraphTask, schedule
from ..tape.modes import FORWARD_AD, NO_GRAD, VMAP, shared, state
from ..tape.node import AccumulateGrad
from ..tape.saved import DIRECT, PACKED, RELEASED
from ..tape.storage import version_of
from ..tape.strided import Layout
from ..tape.tensor import Tensor
from .graph import Unwritable
from .hooks import Hooks, calls_hooks, listens, packed
from .inline import calls, holds_arrays
from .memory import OUT, made
from .plan import accumulate_into

_Pair = tuple[Any, str]  # a raw gradient and its variable


class _Some(NamedTuple):
    """A formula that gives some of the results of another one; the same one where it is made again."""

    formula: Callable
    taken: tuple[int, ...]

    def __call__(self, *given: Any) -> tuple:
        found = self.formula(*given)
        return tuple([found[i] for i in self.taken])


class _OfSeveral(NamedTuple):
    """A formula of ``(F, gs, ...)`` as one whose first `count` arguments after F are the gradients in the list."""

    formula: Callable
    count: int

    def __call__(self, F: Any, *given: Any) -> Any:
        return self.formula(F, list(given[: self.count]), *given[self.count :])


def _is_needed(target: Any) -> bool:
    """Whether the gradient of a node leads to one that is asked for."""
    return target is not None and (state.needed is None or target in state.needed)


@cache
def _adding_halves() -> Callable:
    return partial(backend_for("cpu").through_float32, np.add)


class Backward(Hooks):
    """Runs passes of the engine by itself."""

    def backward(self, roots, grads, keep_graph, create_graph, inputs, accumulate) -> list | None:
        """Run the pass and write it down, and give the gradients at `inputs`; None if the engine has to run it.

        It has to where this cannot be done: nothing more is recorded then. And where the gradients have a graph, are a
        batch or have tangents: it computes them by ops, which are recorded as all others.
        """
        if self.off or self.depth or not self.is_alone():
            self.step_aside()
            return None
        self.watch.stop()  # no node runs yet
        self.notes.backward(roots, grads, keep_graph, create_graph, inputs, accumulate)
        try:
            plan = self._planned(roots, grads, keep_graph, create_graph, inputs, accumulate)
        except Unwritable as exc:
            self.refuse(f"backward: {exc}")
            self.step_aside()
            return None
        finally:
            self.watch.start()
        if plan is None:
            return None
        with self.quiet():
            bits = state.bits
            modes.set_bits(bits | NO_GRAD)
            state.depth += 1
            outer = state.current_task, state.needed
            try:
                task, order, ready, inbox = plan
                state.current_task, state.needed = task, task.needed
                found = self._run(task, order, ready, inbox)
            except Unwritable as exc:
                raise RuntimeError(f"capture: {exc}") from None
            finally:
                state.depth -= 1
                modes.set_bits(bits)
                state.current_task, state.needed = outer
            if task.callbacks is not None:
                self.refuse("a callback is queued for the end of the pass")
                task.finish()
        if accumulate:
            return [None] * len(inputs or ())
        given: dict[str, Any] = {}  # what is asked for twice is one tensor
        return [self._captured(found.get(key), given) for key in inputs or ()]

    def _planned(self, roots, grads, keep_graph, create_graph, inputs, accumulate) -> tuple | None:
        """The order of the nodes, the leaves after each, what arrives first, and the leaves that are asked for.

        None if all that the pass computes is computed by ops.
        """
        traced = create_graph or state.bits & (FORWARD_AD | VMAP)
        if accumulate and traced:
            raise Unwritable("backward with create_graph is not captured")
        if accumulate and any([node.__class__ is not AccumulateGrad for node, _ in inputs or ()]):
            raise Unwritable("backward is called with inputs that are no leaves")
        task = GraphTask(keep_graph, create_graph, accumulate)
        task.roots = [node for node, _ in roots]
        for k, key in enumerate(inputs or ()):
            task.wanted.setdefault(key, []).append(k)
        order, ready, _ = schedule(task.roots, task)
        leaves = [leaf for found in ready.values() for leaf in found]
        wanted = shared.gradient_dtype
        variables: list[Any] = [leaf.variable for leaf in leaves]
        if wanted and any([wanted(v) is not v._array.dtype for v in variables]):
            raise Unwritable("a tensor has a grad_dtype")
        self.look_at_hooks(order, leaves)
        if traced:
            if any([n.extra is not None and n.extra.retained for n in order]):
                raise Unwritable(
                    "a gradient is retained that has a graph, is a batch or has a tangent"
                )
            for grad in grads:
                if grad is not None and grad._array.__class__ is np.ndarray:
                    self._first(grad)
            return None
        if any([g is not None and g._array.__class__ is not np.ndarray for g in grads]):
            raise Unwritable("a gradient that it is called with is none of the CPU's")
        if any([root.__class__ is AccumulateGrad for root in task.roots]):
            raise Unwritable("it is called on a leaf")
        for node in order:
            self.check_node(node)
        for leaf in leaves:
            self._check_leaf(leaf, accumulate)
        inbox: dict[Any, Any] = {}
        for (node, nr), grad in zip(roots, grads, strict=True):
            if grad is None:
                continue
            self._deliver(inbox, node, nr, (grad._array, self._first(grad)))
        return task, order, ready, inbox

    def _first(self, grad: Any) -> str:
        """The variable of a gradient that a pass begins with."""
        array = grad._array
        name = self.name_of(array)
        if name is None and array.size == 1 and array.reshape(-1)[0] == 1:
            name = self._name(array, self.draft.fresh())  # what is written to if it is a gradient
            self.emit(f"{name} = {self.draft.constant(array.copy('K'))}.copy('K')", (name,), ())
        if name is None and (name := self.tensor(grad)) is None:
            raise Unwritable("the gradient given is of unknown origin")
        return name

    def _captured(self, pair: _Pair | None, given: dict[str, Any]) -> Any:
        """A gradient that is asked for, as the engine gives it."""
        if pair is None:
            return None
        found = given.get(pair[1])
        if found is None:
            found = Tensor._make(pair[0])
            if 0 in pair[0].strides and pair[0].size > 1:
                found = found.contiguous()
            given[pair[1]] = found
        return found

    def check_node(self, node: Any) -> None:
        if self.is_function(node):
            return
        if node.__class__ is CopySlices:
            node = node.fn
        op = node.op
        if op is None or node.__class__ not in (op.node_class, op.built_for_halves):
            raise Unwritable(
                f"{node.name()} is no ordinary op (a write to a view by a custom Function, say)"
            )
        if not op.differentiable or (op.variadic and "tensors" in op.saved_tensors):
            raise Unwritable(f"{node.name()} is computed in a way that plans do not know")
        for name in op.saved_tensors:
            version = getattr(node, f"v_{name}")
            value = getattr(node, f"s_{name}")
            if version in (DIRECT, PACKED):
                continue
            if version < 0 or version_of(value) != version:
                raise Unwritable(f"what {node.name()} saved was changed, freed or packed")
            if self.tensor(value) is None:
                raise Unwritable(f"{node.name()} saved a tensor of unknown origin")
        for name in op.saved_results:
            if getattr(node, f"v_{name}") == PACKED:
                continue
            kept = getattr(node, f"k_{name}")
            storage = kept[0] if type(kept) is tuple else kept
            value = getattr(node, f"s_{name}")
            if getattr(node, f"v_{name}") != storage.version:
                raise Unwritable(f"what {node.name()} saved was changed, freed or packed")
            if self.name_of(value) is None:
                raise Unwritable(f"{node.name()} saved a result of unknown origin")
        for name in op.saved_hidden:
            if getattr(node, f"h_{name}") is RELEASED or (id(node), name) not in self.hidden:
                raise Unwritable(f"{node.name()} keeps a value of unknown origin")
        self._boxes = []
        for name in op.saved_attrs:
            value = getattr(node, f"a_{name}")
            if packed(value):
                continue
            if value is RELEASED or self.setting(op, name, value) is None or self._boxes:
                raise Unwritable(f"{node.name()} keeps a setting of unknown origin")

    def _check_leaf(self, node: Any, accumulate: bool) -> None:
        leaf = node.variable
        if accumulate and id(leaf) not in self.reached.tensors:
            if any([t is leaf for t in self.arguments]):
                raise Unwritable("an argument requires grad")
            if leaf._grad is not None:
                raise Unwritable("a tensor made in the step gets several gradients")

    def _deliver(self, inbox: dict, node: Any, nr: int, pair: _Pair) -> None:
        if nr:
            slots = inbox.setdefault(node, [None] * node.n_out)
            slots[nr - 1] = pair if slots[nr - 1] is None else self._add(slots[nr - 1], pair)
        else:
            have = inbox.get(node)
            inbox[node] = pair if have is None else self._add(have, pair)

    def _add(self, have: _Pair, more: _Pair) -> _Pair:
        name, own = self.draft.fresh(), have[1] in self.sums  # nobody else has it
        a, b = have[0], more[0]
        into_own = own and (a.shape, a.dtype) == (b.shape, b.dtype) and a.flags.c_contiguous
        total = a + b if not into_own or a.dtype in HALVES else np.add(a, b, out=a)
        run, text, new = np.add, f"{have[1]} + {more[1]}", None
        if total.__class__ is np.ndarray and total.dtype in HALVES:
            run = _adding_halves()
        add = self.draft.constant(run)
        alike = total.shape == have[0].shape and total.dtype is have[0].dtype
        if own and alike and total.strides == have[0].strides:
            text = f"{add}({have[1]}, {more[1]}, out={have[1]})"
        else:
            into = f"{add}({have[1]}, {more[1]}, {OUT})"
            if run is not np.add:
                text, into = (
                    f"{add}({have[1]}, {more[1]})",
                    f"{add}({have[1]}, {more[1]}, out={OUT})",
                )
            new = made(total, into, lambda out: run(have[0], more[0], out=out))
        self.emit(f"{name} = {text}", (name,), (have[1], more[1]), "a sum of gradients", made=new)
        if total.__class__ is np.ndarray:
            self.sums.add(name)
        return total, self._name(total, name)

    def _run(self, task: GraphTask, order: list, ready: dict, inbox: dict) -> dict:
        """Run the nodes; returns what arrived at the edges that are asked for."""
        found: dict[Any, _Pair] = {}
        goals: dict[Any, list[int]] = {}
        for node, nr in task.wanted:
            goals.setdefault(node, []).append(nr)
        while order:
            node = order.pop()
            grad = inbox.pop(node, None)
            self.spans += 1
            if self.is_function(node) or grad is not None or calls_hooks(node):
                grad = self._caught(node, grad, goals, found)
                if node not in goals or task.leads_on(node):
                    for i, pair in self._run_node(node, grad):
                        target, nr = node.edges()[i]
                        if _is_needed(target):
                            self._deliver(inbox, target, nr, pair)
                    if not task.keep_graph:
                        node.release()
                        self.released.add(id(node))
                        self.kept.append(node)
            for leaf in ready.get(node, ()):
                arrived = inbox.pop(leaf, None)
                if arrived is None:
                    continue
                arrived = self.at_leaf(leaf, arrived)
                if leaf in goals and not task.accumulate:
                    found[leaf, 0] = self.cast(leaf.variable, arrived)
                elif task.accumulate and (not goals or leaf in goals):
                    self._accumulate(leaf, *arrived)
                    if leaf.variable._rg:
                        self.accumulated(leaf)
        return found

    def _caught(self, node: Any, grad: Any, goals: dict, found: dict) -> Any:
        """The gradient of a node as hooks of tensors leave it; it is noted where it is asked for."""
        if listens(node):
            grad = self.arrived(node, grad)
        for nr in goals.get(node, ()):
            pair = grad if node.n_out == 1 else grad[nr - 1] if grad else None
            if pair is not None:
                found[node, nr] = pair
        return grad

    def _run_node(self, node: Any, grad: Any) -> list[tuple[int, _Pair]]:
        if listens(node):
            grad = self.begins(node, grad)
        own, pairs = self.is_function(node), []
        if own or grad is not None:
            gradients = self.run_function if own else self._gradients
            if node.__class__ is CopySlices:
                gradients = self._of_part
            pairs = gradients(node, grad)
        return self.left(node, pairs, grad) if listens(node) else pairs

    def _accumulate(self, node: AccumulateGrad, grad: Any, name: str) -> None:
        leaf = node.variable
        if id(leaf) not in self.reached.tensors:
            self._accumulate_here(leaf, grad, name)
            return
        self.leaves[id(leaf)] = leaf
        what = f"the gradient of a parameter of shape {tuple(leaf.shape)}"
        self.spans += 1
        text, array = self.draft.constant(leaf), leaf._array
        first = leaf._grad is None
        self.emit(f"accumulate({text}, [{name}])", (), (name,), what, True, undone=first)
        fitting = (
            grad.__class__ is np.ndarray and id(leaf) in self.roots and array.flags.c_contiguous
        )
        fitting = fitting and grad.shape == array.shape and grad.dtype is array.dtype
        self.draft.lines[-1] = self.draft.lines[-1]._replace(
            node=node.name(), leaf=text, fitting=fitting
        )
        if leaf._rg:
            accumulate_into(leaf, [grad])

    def _accumulate_here(self, leaf: Any, grad: Any, name: str) -> None:
        """The gradient of a leaf that the step made: no one but the step can see it."""
        if not leaf._rg:
            return
        accumulate_into(leaf, [grad])
        array, new = leaf._grad._array, self.draft.fresh()
        plain = array.__class__ is np.ndarray and grad.__class__ is np.ndarray
        if not plain or array.strides != grad.strides or array.dtype is not grad.dtype:
            self.refuse("the gradient of a tensor that the step made has another layout")
        self.emit(
            f"{new} = {name}.copy('K')", (new,), (name,), "the gradient of a tensor of the step"
        )
        self._name(array, new)

    # -- one node ----------------------------------------------------------------------------------------------------

    def _gradients(self, node: Any, grad: Any) -> list[tuple[int, _Pair]]:
        """(position of the argument, its gradient), in the order in which the engine delivers them."""
        op = node.op
        outer = self.writing
        self.writing = getattr(node, "site", None), f"backward of {op.public}", node.name()
        try:
            return self._of_op(op, node, grad)
        finally:
            self.writing = outer

    def _of_op(self, op: Any, node: Any, grad: Any) -> list[tuple[int, _Pair]]:
        fused = overlays.vjp_of(formulas.numpy_backend(), op)
        found: Any = NotImplemented
        if fused is not None and op.n_out is not None and not op.variadic:
            found = self._joint(node, grad, fused, parameters(fused), ())
            if found is not NotImplemented and op.elementwise and len(op.tensors) > 1:
                found = [(i, self._summed(node, i, pair)) for i, pair in found]
        if found is NotImplemented:
            if op.vjp is not None:
                found = self._joint(node, grad, op.vjp.fn, op.vjp.wants, op.saves)
            else:
                found = self._separate(node, grad)
        return found

    def _of_part(self, node: Any, grad: Any) -> list[tuple[int, _Pair]]:
        """Of a write to a view: the gradient of its part by its own node, put back into that part."""
        needed, old_view = state.needed, node.fn.targets()[0]
        if needed is not None and old_view is not None and node.edge_list[0][0] in needed:
            needed.add(old_view)  # stands for the base
        w, p, g = [self.draft.fresh() for _ in range(3)]
        layout, copy = self.draft.constant(node.base_layout), self.draft.constant(Layout.raw_copy)
        whole = node.base_layout.raw_copy(
            np.asarray(grad[0])
        )  # of 0-dim arrays ufuncs make numbers
        self.emit(f"{w} = {copy}({layout}, asarray({grad[1]}))", (w,), (grad[1],))
        (part, flips), view = views.replay_raw(whole, node.replay), views.replay_raw
        if flips:
            raise Unwritable(f"{node.name()} writes to a conjugate or negative view")
        text = f"{self.draft.constant(view)}({w}, {self.draft.constant(node.replay)})[0]"
        self.emit(f"{p} = {text}", (p,), (w,))
        given = part.copy()
        self.emit(f"{g} = {p}.copy()", (g,), (p,), made=made(given))
        found = dict(self._gradients(node.fn, (given, self._name(given, g))))
        own, o = found.pop(0, (0, "0"))
        part[...] = own
        effect = f"{p}[...] = {o}"
        self.emit(effect, (), (p, o) if o[0] == "t" else (p,), "", True, undone=True, again=True)
        return [(0, (whole, self._name(whole, w))), *found.items()]

    def _joint(self, node: Any, grad: Any, function: Any, wants: tuple, others: tuple) -> Any:
        edges = node.edges()
        for want in others:
            self._fetch(node, want, grad)
        values, texts, ins = self._values(node, wants, grad)
        outs = function(*values)
        if outs is NotImplemented:
            return outs
        outs = list(outs)
        taken = [i for i, (t, _) in enumerate(edges) if _is_needed(t) and outs[i] is not None]
        if not taken:
            return []
        written = self._inlined_formula(
            function,
            values,
            texts,
            ins,
            [outs[i] for i in taken],
            taken,
            len(outs),
            spreading.suits(node.op),
        )
        if written is not None:
            return [
                (i, (outs[i], self._name(outs[i], n))) for i, n in zip(taken, written, strict=True)
            ]
        names = {i: self.draft.fresh() for i in taken}
        left = "".join(f"{names.get(i, '_')}, " for i in range(len(outs)))
        text = f"{left}= {self.draft.constant(function)}({', '.join(texts)})"
        self.emit(text, tuple(names.values()), ins)
        return [(i, (outs[i], self._name(outs[i], names[i]))) for i in taken]

    def _separate(self, node: Any, grad: Any) -> list[tuple[int, _Pair]]:
        op, result = node.op, []
        for i, argument in enumerate(op.tensors):
            formula = op.formulas.get(argument)
            if formula is None or not _is_needed(getattr(node, f"e{i}")):
                continue
            values, texts, ins = self._values(node, formula.wants, grad)
            half = (
                node.__class__ is op.built_for_halves and formula.for_halves(op) is not formula.fn
            )
            run = formula.for_halves(op) if half else formula.fn
            out = run(*values)
            g = grad[0] if grad.__class__ is tuple else None
            alone = spreading.spreadable(op, formula.wants)
            if out is g:
                pair = grad
                self.sums.discard(grad[1])  # others may have it from now on
                if op.elementwise and len(op.tensors) > 1:
                    pair = self._summed(node, i, pair)
                result.append((i, pair))
                continue
            wide = op.wide_numbers and g is not None and out.dtype is not g.dtype
            written = (
                None
                if wide or half
                else self._inlined_formula(formula.fn, values, texts, ins, [out], [0], 1, alone)
            )
            if written is not None:
                pair = out, self._name(out, written[0])
                if op.elementwise and len(op.tensors) > 1:
                    pair = self._summed(node, i, pair)
                result.append((i, pair))
                continue
            name = self.draft.fresh()
            function, given = run, texts
            if alone and not half and spreading.large([g]):
                given = [self.draft.constant(function), *texts]
                function = spreading.spread_gradient
            text = f"{name} = {self.draft.constant(function)}({', '.join(given)})"
            if op.wide_numbers and g is not None and out.dtype is not g.dtype and g.dtype in HALVES:
                out = out.astype(g.dtype)
                text += f".astype({self.draft.constant(g.dtype)})"
            self.emit(text, (name,), ins)
            pair = out, self._name(out, name)
            if op.elementwise and len(op.tensors) > 1:
                pair = self._summed(node, i, pair)
            result.append((i, pair))
        return result

    def _inlined_formula(
        self, function, values, texts, ins, results, taken, count, pointwise=False
    ) -> tuple | None:
        """Write the NumPy calls that a formula makes; the variables of its results, or None if they cannot be told."""
        names = [t if t in ins else None for t in texts]
        if self.draft.fuses:  # settings are no variables
            names = [None if n in self.draft.names else n for n in names]
        if len(values) > 1 and values[0].__class__ is formulas.Namespace:
            several = values[1] if values[1].__class__ is list else None
            if several and all([isinstance(v, np.ndarray) for v in several]):
                function, n = _OfSeveral(function, len(several)), len(several)
                values, names = [values[0], *several, *values[2:]], [None, *ins[:n], *names[2:]]
        if holds_arrays([v for v, n in zip(values, names, strict=True) if n is None]):
            return None
        if count == 1 and taken == [0] and len(results) == 1:
            called, wanted = function, results[0]
        else:
            called, wanted = _Some(function, tuple(taken)), tuple(results)
        found = calls(self.draft, called, values, names, {}, wanted, pointwise)
        if found is None:
            return None
        for text, outs, used, new in found[0]:
            self.emit(text, outs, used, made=new)
        return found[1]

    def _summed(self, node: Any, i: int, pair: _Pair) -> _Pair:
        shape = getattr(node, f"b{i}")
        if shape is None:
            return pair
        out = formulas.sum_to(pair[0], shape)
        written = self._inlined_formula(
            formulas.sum_to, [pair[0], shape], [pair[1], ""], (pair[1],), [out], [0], 1
        )
        if written is not None:
            return out, self._name(out, written[0])
        name = self.draft.fresh()
        call = self.draft.constant(formulas.sum_to)
        self.emit(f"{name} = {call}({pair[1]}, {self.draft.constant(shape)})", (name,), (pair[1],))
        return out, self._name(out, name)

    def _values(self, node: Any, wants: tuple, grad: Any) -> tuple[list, list[str], tuple]:
        found = [self._fetch(node, want, grad) for want in wants]
        ins = tuple(n for f in found for n in f[2])
        return [f[0] for f in found], [f[1] for f in found], ins

    def _fetch(self, node: Any, want: str, grad: Any) -> tuple[Any, str, tuple]:
        """(value, text, variables in it) of what a formula wants."""
        op = node.op
        if want == "g" and grad.__class__ is tuple:
            return grad[0], grad[1], (grad[1],)
        if want == "gs":
            pairs = grad if grad.__class__ is list else [grad]
            text = "".join(f"{'None' if p is None else p[1]}, " for p in pairs)
            return (
                [None if p is None else p[0] for p in pairs],
                f"[{text}]",
                tuple(p[1] for p in pairs if p),
            )
        if want == "F":
            space = formulas.raw_ops(np.float32(0))
            return space, self.draft.constant(space), ()
        if want == "needs":
            needs: Any = [_is_needed(target) for target, _ in node.edges()]
            needs = needs if op.variadic else tuple(needs)
            return needs, repr(needs), ()
        if want in op.saved_tensors or want in op.saved_results:
            value, version = getattr(node, f"s_{want}"), getattr(node, f"v_{want}")
            if want in op.saved_tensors and version == DIRECT:
                return value, self.draft.constant(value), ()
            if version == PACKED:
                array, name = self.unpacked(node, want)
                return array, name, (name,)
            if want in op.saved_tensors:
                name = self.tensor(value)
                value = value._array
            else:
                name = self.name_of(value)
            if name is None:  # there will be no plan, but the pass goes on
                self.refuse(f"{node.name()} saved a tensor of unknown origin")
                name = self.draft.fresh()
            return value, name, (name,)
        if want in op.hidden:
            name, value = self.hidden[id(node), want], getattr(node, f"h_{want}")
            if packed(value):
                value = self.unpacked_arrays(node, f"h_{want}")
                name = self.names.get(id(value), name)
                if value.__class__ is tuple:
                    self.refuse(f"{node.name()} keeps several arrays that hooks have packed")
            return value, name, (name,)
        if want in op.attrs:
            value = getattr(node, f"a_{want}")
            if packed(value):
                value = self.unpacked_arrays(node, f"a_{want}")
            found = self.setting(op, want, value)
            if found is None:
                self.refuse(f"{node.name()} keeps a setting of unknown origin")
                return value, self.draft.constant(value), ()
            return value, *found
        value = getattr(node, f"n_{want.removesuffix('_shape')}")
        return value, self.draft.constant(value), ()
