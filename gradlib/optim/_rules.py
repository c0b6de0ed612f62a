"""From the rule of an optimizer to code that works on arrays in place.

A rule is written once, as ordinary expressions. On Tensors it simply runs, and may be recorded. For arrays it is run
once on `Symbol`s, and what it does with them is written out as straight code in which every result gets a place that
costs no new memory: the state it takes the place of, `out`, or a spare array that nobody needs any more.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..operators import public as ops
from ..tape.tensor import Tensor

NUMBER, MASK, ARRAY = "number", "mask", "array"


class Symbol:
    """Stands for a value in a rule: a number, an array, or a mask (an array of truth values).

    text: a number as Python text; of an array or mask the name of the function that gives it, "" for an argument.
    """

    __slots__ = ("args", "kind", "steps", "text")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, steps: list[Symbol], kind: str, text: str = "", args: tuple = ()):
        self.steps, self.kind, self.text, self.args = steps, kind, text, args

    def __bool__(self) -> bool:
        raise TypeError("a rule may branch on constants that are bool, not on values")

    def __neg__(self) -> Symbol:
        return call("negative", self)


def call(name: str, *args: Any, kind: str = ARRAY) -> Symbol:
    """The result of a function of `xp`: one step more."""
    steps = next(a.steps for a in args if isinstance(a, Symbol))
    steps.append(Symbol(steps, kind, name, args))
    return steps[-1]


def _install(name: str, sign: str, function: str, kind: str = ARRAY) -> None:
    def operator(a: Any, b: Any) -> Symbol:
        if _is_number(a) and _is_number(b):  # computed anew in each step, by Python
            steps = a.steps if isinstance(a, Symbol) else b.steps
            return Symbol(steps, NUMBER, f"({_number(a)} {sign} {_number(b)})")
        return call(function, a, b, kind=kind)

    setattr(Symbol, f"__{name}__", operator)
    if kind == ARRAY:
        setattr(Symbol, f"__r{name}__", lambda a, b: operator(b, a))


for _name, _sign, _function in (
    ("add", "+", "add"), ("sub", "-", "subtract"), ("mul", "*", "multiply"), ("truediv", "/", "divide"),
):  # fmt: skip
    _install(_name, _sign, _function)
for _name, _sign, _function in (("lt", "<", "less"), ("gt", ">", "greater"), ("eq", "==", "equal")):
    _install(_name, _sign, _function, MASK)


def _is_number(value: Any) -> bool:
    return not isinstance(value, Symbol) or value.kind == NUMBER


def _number(value: Any) -> str:
    return value.text if isinstance(value, Symbol) else repr(value)


def _where(test: Any, a: Any, b: Any) -> Any:
    return call("where", test, a, b) if isinstance(test, Symbol) else a if test else b


FUNCTIONS = SimpleNamespace(
    sqrt=lambda x: call("sqrt", x),
    abs=lambda x: call("absolute", x),
    maximum=lambda x, y: call("maximum", x, y),
    clamp=lambda x, low, high: call("clip", x, low, high),
    where=_where,
)
"""The `F` of a rule on symbols."""


def choose(test: Any, a: Any, b: Any) -> Any:
    """`a` where `test` holds, else `b`; if that is a tensor, it is decided on its device."""
    return ops.where(test, a, b) if isinstance(test, Tensor) else a if test else b


class _OnTensors:
    where = staticmethod(choose)

    def __getattr__(self, name: str) -> Any:
        return getattr(ops, name)


ON_TENSORS = _OnTensors()
"""The `F` of a rule on Tensors."""


class Program:
    """A rule as code for arrays.

    Args:
        rule: ``rule(F, h, p, g, s)`` -> (what is subtracted from p, what is new in `s`).
        names: of the state in `s`.
        h: the constants of a step: those that are bool are part of the code, numbers may change.

    Attributes:
        run: ``run(xp, h, p, g, slots, out, spare)`` changes the slots in place and writes to `out` what is subtracted.
        spare: how many spare arrays it needs.
        reads_param: whether it reads `p`.
    """

    def __init__(self, rule: Callable, names: tuple[str, ...], h: dict[str, Any]):
        steps: list[Symbol] = []
        p, g = Symbol(steps, ARRAY), Symbol(steps, ARRAY)
        slots = {name: Symbol(steps, ARRAY) for name in names}
        constants = {
            k: v if isinstance(v, bool) else Symbol(steps, NUMBER, f"h[{k!r}]")
            for k, v in h.items()
        }
        change, new = rule(FUNCTIONS, SimpleNamespace(**constants), p, g, slots)
        memory = [f"s{i}" for i in range(len(names))]
        at = {id(p): "p", id(g): "g", **dict(zip(map(id, slots.values()), memory))}
        results = [("out", change)]
        results += [(f"s{names.index(k)}", v) for k, v in new.items()]
        steps = needed(steps, results)
        read = [*(a for step in steps for a in step.args), *(value for _, value in results)]
        self.reads_param = any(a is p for a in read)
        lines, self.spare = _place(steps, results, at)
        spares = [f"t{i}" for i in range(self.spare)]
        heads = [f"{', '.join(s)}, = {v}" for s, v in ((memory, "slots"), (spares, "spare")) if s]
        body = "\n    ".join([*heads, *lines])
        self.code = f"def run(xp, h, p, g, slots, out, spare):\n    {body}\n"
        space: dict[str, Any] = {}
        exec(self.code, space)
        self.run: Callable[..., None] = space["run"]


def needed(steps: list[Symbol], results: list[tuple[str, Symbol]]) -> list[Symbol]:
    """The steps that lead to a result."""
    found = {id(value) for _, value in results}
    for step in reversed(steps):
        if id(step) in found:
            found.update(map(id, step.args))
    return [step for step in steps if id(step) in found]


def _place(
    steps: list[Symbol], results: list[tuple[str, Symbol]], at: dict[int, str]
) -> tuple[list[str], int]:
    """(lines of code, number of spare arrays); `at` says where the arguments are, by id."""
    last = {id(a): k for k, step in enumerate(steps) for a in step.args}
    last.update((id(value), len(steps)) for _, value in results)
    wanted = _wishes(steps, results, last, at)
    held: dict[str, int | None] = {"out": None}  # what lies where code may write
    held.update((place, i if i in last else None) for i, place in at.items() if place[0] == "s")
    lines = []
    for k, step in enumerate(steps):
        operands = [_number(a) if _is_number(a) else at[id(a)] for a in step.args]
        if step.kind == MASK:
            at[id(step)] = f"m{k}"
            lines.append(f"m{k} = xp.{step.text}({', '.join(operands)})")
            continue
        given_up = [at[id(a)] for a in overwritable(step) if last[id(a)] == k]
        scratch = [place for place in held if place[0] != "s"]
        choice = [
            wanted.get(id(step)),
            *(place for place in scratch if place in given_up),
            *scratch,
        ]
        open_places = (c for c in choice if c and (held[c] is None or c in given_up))
        place = next(open_places, f"t{len(scratch) - 1}")
        lines += _statements(step.text, operands, place)
        for a in step.args:
            if (where := at.get(id(a))) in held and last[id(a)] == k:
                held[where] = None
        held[place], at[id(step)] = id(step), place
    moves = {place: at[id(value)] for place, value in results if at[id(value)] != place}
    while moves:
        place = next((to for to in moves if to not in moves.values()), None)
        if place is None:  # they change places among themselves
            place, spare = next(iter(moves)), f"t{len(held)}"
            lines.append(f"{spare} = {place}.copy()")
            moves = {to: spare if source == place else source for to, source in moves.items()}
        lines.append(f"xp.copyto({place}, {moves.pop(place)})")
    return lines, sum(place[0] == "t" for place in held)


def _wishes(
    steps: list[Symbol], results: list[tuple[str, Symbol]], last: dict[int, int], at: dict[int, str]
) -> dict[int, str]:
    """Where a value had better be: where the result is expected that it is on the way to.

    Of two on the way, the one that is computed from what is there now.
    """
    wanted: dict[int, str] = {}
    for place, value in results:
        wanted.setdefault(id(value), place)
    for k in reversed(range(len(steps))):
        place = wanted.get(id(steps[k]))
        ending = [a for a in overwritable(steps[k]) if last[id(a)] == k and a.text]
        ending.sort(key=lambda a: place not in [at.get(id(b)) for b in a.args])
        if place is not None and ending:
            wanted.setdefault(id(ending[0]), place)
    return wanted


def overwritable(step: Symbol) -> list[Symbol]:
    """The arrays that a function reads in step with writing its result, which so may take their place."""
    args = step.args[2:] if step.text == "where" else step.args
    return [a for a in args if not _is_number(a) and a.kind == ARRAY]


def _statements(function: str, operands: list[str], place: str) -> list[str]:
    if function != "where":
        out = f"out={place}" if function == "maximum" else place  # NumPy wants that by name there
        return [f"xp.{function}({', '.join(operands)}, {out})"]
    test, a, b = operands
    begin = [] if b == place else [f"xp.copyto({place}, {b})"]
    return [*begin, f"xp.copyto({place}, {a}, where={test})"]
