"""Op: the one declaration of an operation, from which everything else about it follows.

    exp = declare("exp", "exp", self=lambda g, result: g * result.conjugate(), promote="float", elementwise=True)

- **forward**: the name of a NumPy/CuPy ufunc, or ``forward(xp, *arrays, *, **attrs)`` on raw arrays; `xp` is the
  backend. Positional parameters are the tensor arguments (default None: optional); keyword-only ones are attributes.
- **formulas**: one keyword per tensor argument gives its gradient; or ``vjp=`` gives all of them as a tuple. The
  parameter names of a formula say what it needs, and what it needs is what the op saves:
  `g` (gradient of the output), `gs` (tuple, for several outputs), `F` (the ops, on whatever the formula runs on),
  a tensor argument, `result` (or `result0`, `result1`...), an attribute, `<argument>_shape`, `needs` (tuple of
  bool), or a name of `hidden`.
  The same formula runs on raw arrays (fast) and on Tensors (to be differentiated again): only operators and `F`.
- **jvp**: ``"linear"``: the op applied to the tangents; ``"multilinear"``: the sum over the arguments;
  ``"elementwise"``: derived from the formulas by conjugation; a function of `F`, tangents `<argument>_t` and the
  names above; or nothing: then it is derived by differentiating the formulas with respect to `g`, always right.
- **hidden**: values that forward returns after its result(s) for the formulas alone: name -> function that computes
  it from the other names on Tensors, or None for constants (indices).
  They are kept with the graph whether a formula names them or not: an overlay may.
- **saves**: further names (arguments, results) that an overlay of the gradient needs and the formulas do not.
- **samples**: ``samples(t)`` gives argument tuples for ``op.call`` (tensors made by ``t(*shape, low=, high=)``, then
  attributes); they drive the generated tests (forward, gradcheck, gradgradcheck, forward mode, in-place, empty,
  strided, complex). Elementwise ops have samples of their own, drawn from `domain`; `complex` says whether complex
  arguments are supported.
- **arrays**: attributes that hold raw index arrays: freed with the graph, seen by saved-tensor hooks.
- **tables**: those of them, by one text, that hold numbers which shapes and settings alone decide: of a padding, say.
- **numbers**: which arguments of an elementwise op may be Python numbers: "any" (the default of two and
  more), "one" (not all of them), "second" (all but the first) or "none" (the default of one). **check**:
  ``check(args)`` gives the exception for arguments that the op refuses although its kernel might take them, or None;
  asked off the fast path only.
- **leaves_device**: the result may lie on another device than the arguments.
- **dependent**: the arguments that gradients count as functions of although their formulas may be constant.
- **promote**: "same" (cast arguments to their common type), "float" (and integers to the default float),
  "number" (and bool to int64), "none" (refuse mixed types; **mixed**: ``mixed(*args)`` gives PyTorch's text for it),
  or "free" (arguments are of different kinds); those named in **fixed** (a condition, a mask) keep their dtype.
- **dynamic**: whether the shape of the result depends on values, or the name of the argument whose values decide.
- **wide_numbers**: numbers (and 0-dim tensors of wider dtypes) beside half types take part in float32, so that one that
  a half type cannot hold gives the right result.
- **by_place**: a view op whose attributes name places in memory: the strides of its argument matter.
- **overlapping**: what its in-place form does to a tensor whose elements share memory, as an expanded one's: "" refuses
  it, "fill" writes one value everywhere, "warn" is deprecated there (and refused where gradients are recorded).
- **sharing**: which operands its in-place form takes that lie in the memory it writes to: "" the written tensor itself,
  "apart" none, "number" any, since it reads a single number first.
- **public**: what people call the op, in profiles and traces, where that is not its name: several ops may stand for one
  function (pow of a number, of a tensor).
- **known_as**: ``known_as(*args)`` gives the name of a call in PyTorch, for an op that is several there.
- **flips**: "conj" or "neg": a view op whose result is the conjugate or the negative of its argument, without a
  copy; see tape/lazy.py, whose `flipped` is its kernel. **carries**: which of the two a view op hands on from its
  argument; of what is lazy in another way it gets a resolved copy.
- **implementations**: PyTorch's names of what it runs for the op, where that is not `public` (one for each library).
- **row_major**: the result is made row-major; without it the kernel decides, and elementwise ops keep the order of
  strides of their arguments.
- **copies**: its result is its argument, elsewhere or in another dtype; recorded of an inference tensor, too, which
  gets a history that way.
- **autocast**: what its float arguments become there: "lower" (the dtype of products), "float32", "promote" (the widest
  among them), or "refuse"; where device types differ ``"cpu:float32 cuda:refuse"``; or a function of the device type
  and the attributes. Without it they stay as they are.
- **expression**: ``expression(xp, *args)``, forward as one expression for generated kernels, where the kernel for
  arrays works in pieces or by tables.
- **aten**: how PyTorch's call of it looks where that is another: ``"_to_copy(self, *dtype)"``, a name, or the arguments
  alone. After a star are those told by name (``*device:target`` under another one), ``dim=0`` says a default,
  ``=False`` stands for an argument that is not declared.
- **float8**: whether it takes float8 tensors, with which NumPy does not compute: as the float32 numbers that they are.
- **sparse**: whether it takes or gives sparse tensors itself. For other ops a rule says what they are for sparse
  arguments; see `operators.sparse.rules`.
- **captures**: whether a CUDA graph can record it: True, the reason why not, or
  ``captures(tensors, attributes by name)`` that gives the reason or None. What is `dynamic` never can.
- **pieces**: whether an elementwise op gives the same numbers to the last bit when it is computed for a part of its
  arguments at a time: not where it adds up by products of matrices on its way.
- **in_float32**: whether an elementwise op gives the numbers of a half type where it is computed in float32 and rounded
  once, as on the CPU: not where the kernel asks which numbers the dtype has. "whole": another op that is, too.
- **flops**: an estimate of its floating point operations, of products: ``flops(attributes by name, *shapes)``;
  **backward_flops**: the same of its gradient where one kernel computes that (see `recording.run_whole`).
- **channels_last**: the results are channels last where one of the arguments named here is; **channels_last_3d**:
  whether those of five dimensions are, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..tape.arrays import backend_for
from ..tape.layout import keeping
from . import halves
from .formulas import register
from .registry import REGISTRY as REGISTRY
from .signature import parameters, plain_form
from .write import build, prepare
from .write_node import device_node_class, formula_node_class, half_node_class


class Formula:
    """A gradient formula and the names of what it needs."""

    __slots__ = ("_for_halves", "fn", "wants")

    def __init__(self, fn: Callable):
        self.fn, self.wants = fn, parameters(fn)
        self._for_halves: Callable | None = None

    def for_halves(self, op: Op) -> Callable:
        """`fn` for NumPy arrays of half types: in float32 and rounded once, where that is what the op does."""
        if self._for_halves is None:
            self._for_halves = self.fn
            some = np.zeros(1, np.float32)
            given_on = self.wants == ("g",) and self.fn(some) is some
            if halves.differentiable(op, self.wants) and not given_on:
                self._for_halves = partial(backend_for("cpu").gradient_through_float32, self.fn)
        return self._for_halves


class Op:
    """A declared operation. ``op.call(*tensors, *attrs)`` runs and records it."""

    def __init__(
        self,
        name: str,
        forward: str | Callable,
        /,
        *,
        vjp: Callable | None = None,
        jvp: str | Callable | None = None,
        promote: str = "same",
        fixed: tuple[str, ...] = (),
        leaves_device: bool = False,
        arrays: tuple[str, ...] = (),
        tables: str = "",
        elementwise: bool = False,
        view: bool = False,
        n_out: int | None = 1,
        hidden: dict[str, Callable | None] | None = None,
        node: str | None = None,
        inplace: bool = False,
        batch: str | Callable = "",
        apart: str = "",
        pointwise: bool = False,
        nondifferentiable: tuple[int, ...] | str = (),
        integer_results: bool = False,
        args: str | None = None,
        samples: Callable | None = None,
        domain: tuple[float, float] = (-2.0, 2.0),
        complex: bool | None = None,
        dependent: str = "",
        numbers: str = "",
        check: Callable | None = None,
        mixed: Callable | None = None,
        row_major: bool = False,
        wide_numbers: bool = False,
        by_place: bool = False,
        dynamic: bool | str = False,
        each_entry: bool = False,
        overlapping: str = "",
        sharing: str = "",
        channels_last: str = "",
        channels_last_3d: bool = True,
        public: str = "",
        known_as: Callable | None = None,
        flips: str = "",
        carries: str = "conj neg",
        implementations: str = "",
        copies: bool = False,
        expression: Callable | None = None,
        captures: bool | str | Callable = True,
        autocast: str | Callable = "",
        flops: Callable | None = None,
        backward_flops: Callable | None = None,
        saves: str = "",
        float8: bool = False,
        aten: str = "",
        sparse: bool = False,
        pieces: bool = True,
        in_float32: bool | str = True,
        **formulas: Callable,
    ):
        self.name, self.view, self.n_out = name, view, n_out
        self.ufunc = forward if isinstance(forward, str) else None
        self.forward: Callable
        if isinstance(forward, str):
            names = (args or "self").split()
            self.tensors, self.attrs, self.optional, self.variadic = tuple(names), (), (), False
            self.forward = _ufunc_forward(forward)
        else:
            self.forward = forward
            self._read_signature(forward)
        self.elementwise, self.promote = elementwise, promote
        self.fixed, self.arrays, self.leaves_device = fixed, arrays, leaves_device
        self.tables = tuple(tables.split())
        self.hidden = hidden or {}
        self.inplace = inplace or elementwise
        # the rule of vmap (a function, or the name of one in operators/batching), and what it calls instead of the op
        self.batch, self.apart = batch or ("elementwise" if elementwise else ""), apart
        self.batched: Callable | None = None  # the function
        # each element of the result comes of one of the first argument
        self.pointwise = elementwise or pointwise
        # indices of outputs that never require grad, or a reason why the op has no derivative at all
        self.nondifferentiable = nondifferentiable
        self.integer_results, self.samples = integer_results, samples
        self.domain, self.complex = domain, complex
        self.dependent = tuple(dependent.split())  # see op/dependence.py
        self.numbers = numbers or ("none" if elementwise and len(self.tensors) == 1 else "any")
        self.check, self.row_major, self.by_place = check, row_major, by_place
        self.mixed = mixed
        self.wide_numbers = wide_numbers
        self.dynamic, self.overlapping, self.sharing = dynamic, overlapping, sharing
        self.pieces, self.in_float32 = pieces, in_float32
        self.channels_last = tuple([self.tensors.index(t) for t in channels_last.split()])
        self.channels_last_3d = channels_last_3d
        self.bare = self.forward  # the kernel alone, whose results the generated code lays out
        self.forward = self.laid_out(self.forward)
        self.public = public or name
        self.written_by = self.public + "_"  # what changed a tensor, in errors
        self.flips, self.carries, self.copies = flips, carries, copies
        self.known_as, self.implementations = known_as, tuple(implementations.split())
        self.autocast, self.expression, self.float8 = autocast, expression, float8
        self.flops, self.backward_flops, self.captures = flops, backward_flops, captures
        self.aten = aten  # read by ops/calls.py
        self.node_name = node or _camel(name) + "Backward0"
        unknown = set(formulas) - set(self.tensors)
        if unknown:
            raise TypeError(
                f"op {name}: formulas for unknown arguments {sorted(unknown)}; it has {self.tensors}"
            )
        self.formulas = {key: Formula(fn) for key, fn in formulas.items()}
        self.vjp = Formula(vjp) if vjp is not None else None
        self.differentiable = bool(self.formulas or self.vjp)
        # vmap runs the op and its derivative for each entry: also where a hidden value cannot be computed anew
        self.each_entry = each_entry or None in self.hidden.values()
        self.by_entry: Callable | None = None  # `call` in that way, or `apart`
        self.jvp = jvp if jvp is not None else "elementwise" if elementwise else None
        if isinstance(self.jvp, str) and self.jvp not in ("linear", "multilinear", "elementwise"):
            raise TypeError(f"op {name}: unknown jvp {self.jvp!r}")
        self.jvp_wants = parameters(self.jvp) if callable(self.jvp) else ()
        self._plan(saves)
        self.built: type | None = None  # the node class, once the op's code is written
        self.built_for_device: type | None = None
        self.built_for_formulas: type | None = None
        self.built_for_halves: type | None = None
        self.formula_run: Callable | None = None  # how its nodes run by the formulas alone
        self.number_first: Callable | None = None
        # `call` for arrays of a current device, and its form for a number as first argument; see `write_device`
        self.on_device: Callable | None = None
        self.on_device_number_first: Callable | None = None
        # ``on_sparse(*args, *attrs)`` is the op where an argument is sparse, see `operators.sparse.rules`
        self.on_sparse: Callable | None = None
        self.sparse = sparse
        self.one_way = self.variadic or leaves_device or sparse  # no code is written for devices
        self.operators: list = []  # the functions behind Python's operators
        self.exact_out = (
            ""  # else: what to say if a tensor given as out= has not the dtype of the result
        )
        self.bool_out = ""  # it must be a bool tensor: the name to say so under

        prepare(self)
        if sparse:
            self.on_sparse = self.call

    def laid_out(self, kernel: Callable) -> Callable:
        """`kernel`, made to keep channels last if the op does."""
        if not self.channels_last:
            return kernel
        return keeping(kernel, self.channels_last, self.n_out, self.channels_last_3d)

    def _read_signature(self, forward: Callable) -> None:
        found = plain_form(forward)
        if found is not None:
            code = found.__code__
            names, n = code.co_varnames, code.co_argcount
            self.tensors, self.attrs = names[1:n], names[n : n + code.co_kwonlyargcount]
            self.optional = names[n - len(found.__defaults__ or ()) : n]
        else:
            given = list(inspect.signature(forward).parameters.values())[1:]
            plain = [p for p in given if p.kind is p.POSITIONAL_OR_KEYWORD]
            self.tensors = tuple(p.name for p in plain)
            self.optional = tuple(p.name for p in plain if p.default is None)
            self.attrs = tuple(p.name for p in given if p.kind is p.KEYWORD_ONLY)
        self.variadic = self.tensors == ("tensors",)

    def _plan(self, saves: str) -> None:
        """What each formula needs decides what is saved, and for the sake of which arguments."""
        self.results = (
            ("result",) if self.n_out == 1 else tuple(f"result{i}" for i in range(self.n_out or 0))
        )
        users: dict[str, set[str]] = {}
        formulas = self.formulas if self.vjp is None else dict.fromkeys(self.tensors, self.vjp)
        for argument, formula in formulas.items():
            for want in formula.wants:
                users.setdefault(want, set()).add(argument)
        self.saves = tuple(saves.split())
        for want in (*self.hidden, *self.saves):
            users.setdefault(want, set()).update(formulas)
        known = {
            "F",
            "g",
            "gs",
            "needs",
            *self.tensors,
            *self.results,
            *self.hidden,
            *self.attrs,
        }
        known |= {f"{t}_shape" for t in self.tensors}
        unknown = set(users) - known
        if unknown:
            raise TypeError(
                f"op {self.name}: formulas ask for unknown names {sorted(unknown)}; there are {sorted(known)}"
            )
        # a hidden value is recomputed from saved values on the way to second derivatives
        for key in list(users):
            recompute = self.hidden.get(key)
            for want in parameters(recompute) if recompute else ():
                users.setdefault(want, set()).update(users[key])
        self.users = users
        self.saved_tensors = tuple(t for t in self.tensors if t in users)
        self.saved_results = tuple(r for r in self.results if r in users)
        self.saved_hidden = tuple(h for h in self.hidden if h in users)
        self.saved_attrs = tuple(a for a in self.attrs if a in users)
        self.saved_arrays = tuple(a for a in self.arrays if a in users)
        self.saved_shapes = tuple(t for t in self.tensors if f"{t}_shape" in users)

    def plain_scalar(self, name: str) -> bool:
        """Whether a saved number is shown as a number (pow's exponent) and not as a 0-dim tensor."""
        return name == "exponent"

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join((*self.tensors, *self.attrs))})>"

    call: Callable[..., Any]

    @property
    def node_class(self) -> type:
        """The Node subclass of this op."""
        if self.built is None:
            build(self)
        assert self.built is not None
        return self.built

    @property
    def device_node_class(self) -> type:
        """The same for arrays of a device: its `run` tries a fused kernel before it runs the formulas."""
        if self.built_for_device is None:
            self.built_for_device = device_node_class(self)
        return self.built_for_device

    @property
    def formula_node_class(self) -> type:
        """The same for arrays that no kernel knows: its `run` runs the formulas alone."""
        if self.built_for_formulas is None:
            self.built_for_formulas = formula_node_class(self)
        return self.built_for_formulas

    @property
    def half_node_class(self) -> type:
        """The same for NumPy arrays of half types: its `run` computes in float32 and rounds once; see `halves`."""
        if self.built_for_halves is None:
            self.built_for_halves = half_node_class(self)
        return self.built_for_halves


def declare(name: str, forward: str | Callable, /, **spec: Any) -> Op:
    """Declare an operation (see the module's text) and register it."""
    if name in REGISTRY:
        raise TypeError(f"op {name} is declared twice")
    op = REGISTRY[name] = Op(name, forward, **spec)

    register(op)
    return op


def _ufunc_forward(ufunc: str) -> Callable:
    def forward(xp, *arrays):
        return getattr(xp, ufunc)(*arrays)

    return forward


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
