"""Sample calls: the texts of samples/, and what becomes of them.

A line is ``<what is called> :: <arguments> | <arguments> ...``, in Python, with the names of `draw`. What is called:

- names (``sin cos``, ``linalg.det``, ``Tensor.where``). A bare name stands for every function or method of that name;
  for a method and its in-place form, too, if these have no line of their own. An in-place function is called on a copy.
- ``nn.Linear(4, 3)``: a module; its parameters are arguments like the others.
- ``key := expression``: any function or module, counted as samples of `key`.
- ``name = expression``: any function; a case of its own, called `name`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gradlib as gl
from gradlib import nn
from gradlib.func import functional_call
from gradlib.tape.pytree import flatten, unflatten

from .draw import Draw
from .space import PLAIN, groups, namespace

SAMPLES = Path(__file__).parent / "samples"


class Case:
    """One sample call: ``case.draw(seed)`` gives its tensors, ``case(*tensors)`` the tensors that come out."""

    def __init__(self, key: str, number: int, fn: Callable, text: str, inplace: bool = False):
        self.key, self.number, self.fn, self.text = key, number, fn, text
        self.inplace = inplace  # `fn` changes its first argument
        self.code = compile(f"A({text})", text, "eval")
        self.module = fn if isinstance(fn, nn.Module) else None

    def __repr__(self) -> str:
        return f"{self.key}#{self.number} ({self.text})"

    def arguments(self, seed: int = 0) -> tuple[tuple, dict]:
        gl.manual_seed(seed)
        args, kwargs = eval(self.code, Draw(seed).space())
        if self.module is not None:
            weights = Draw(seed + 1000)
            own = {
                n: weights.x(*p.shape, lo=0.1, hi=0.9) - 0.4
                for n, p in self.module.named_parameters()
            }
            return (own, *args), kwargs
        return args, kwargs

    def draw(self, seed: int = 0) -> list[gl.Tensor]:
        return [t for t in flatten(self.arguments(seed))[0] if isinstance(t, gl.Tensor)]

    @property
    def template(self) -> tuple[list, Any]:
        if "_template" not in self.__dict__:
            self._template = flatten(self.arguments())
        return self._template

    @property
    def answers(self) -> bool:
        """Whether it gives something else than tensors."""
        if "_answers" not in self.__dict__:
            self._answers = not any(
                isinstance(t, gl.Tensor) for t in flatten(self.run(*self.draw()))[0]
            )
        return self._answers

    def run(self, *tensors: gl.Tensor, **more: Any) -> Any:
        """The result of the call as it is."""
        leaves, spec = self.template
        queue = iter(tensors)
        args, kwargs = unflatten(
            [next(queue) if isinstance(t, gl.Tensor) else t for t in leaves], spec
        )
        gl.manual_seed(7)
        result = self._called(args, kwargs, more)
        return list(result) if hasattr(result, "__next__") else result

    def _called(self, args: tuple, kwargs: dict, more: dict) -> Any:
        if self.module is not None:
            own, args = args[0], args[1:]
            buffers = {n: b.clone() for n, b in self.module.named_buffers()}
            return functional_call(self.module, {**own, **buffers}, args, kwargs)
        if self.inplace:
            args = (args[0].clone(), *args[1:])
        return self.fn(*args, **kwargs, **more)

    def __call__(self, *tensors: gl.Tensor) -> tuple[gl.Tensor, ...]:
        return tensors_of(self.run(*tensors))


def tensors_of(result: Any) -> tuple[gl.Tensor, ...]:
    return tuple(t for t in flatten(result)[0] if isinstance(t, gl.Tensor))


@cache
def lines() -> list[tuple[str, list[str]]]:
    """(what is called, its arguments) of all files."""
    found = []
    for path in sorted(SAMPLES.glob("*.txt")):
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                head, _, samples = line.partition(" :: ")
                assert samples, f"{path.name}: no ' :: ' in {line!r}"
                found.append((head.strip(), [s.strip() for s in samples.split(" | ")]))
    return found


def _evaluated(text: str) -> Any:
    gl.manual_seed(0)
    return eval(text, Draw(0).space())


@cache
def cases() -> dict[str, list[Case]]:
    """Key -> its sample calls. A callable with several names has them under the first."""
    with warnings.catch_warnings(action="ignore"):
        return _cases()


def _cases() -> dict[str, list[Case]]:
    public = namespace()
    found: dict[str, list[Case]] = {}
    exact: dict[str, list[str]] = {}

    def add(key: str, fn: Callable, samples: list[str], inplace: bool = False) -> None:
        own = found.setdefault(key, [])
        own += [Case(key, len(own) + i, fn, s, inplace) for i, s in enumerate(samples)]

    for head, samples in lines():
        if match := re.match(r"(nn(?:\.\w+)+)\(", head):
            add(match[1], _evaluated(head).double(), samples)
        elif match := re.match(r"(\S+) := ", head):
            assert match[1] in public, f"{match[1]} is not public"
            fn = _evaluated(head[match.end() :])
            add(match[1], fn.double() if isinstance(fn, nn.Module) else fn, samples)
        elif match := re.match(r"(\w+) = ", head):
            add(f"composite.{match[1]}", _evaluated(head[match.end() :]), samples)
        else:
            for name in head.split():
                exact.setdefault(name, []).extend(samples)
    for first, keys in groups(public).items():
        if any(k in found for k in keys):
            continue
        names = [k.rpartition(".")[2] for k in keys if k.partition(".")[0] in PLAIN] or [""]
        own = next((exact[k] for k in (*keys, *names) if k in exact), None)
        inplace = names[0].endswith("_") and not names[0].endswith("__")
        if own is None and inplace:
            own = next((exact[n[:-1]] for n in names if n[:-1] in exact), None)
            own = own and [s for s in own if _fits(public.get(keys[0][:-1]), s)]
        inplace |= (
            bool(re.match("__i(?!nt_|ter|nvert|ndex)", names[0])) or names[0] == "__setitem__"
        )
        if own:
            add(first, public[first], own, inplace)
    return found


def _fits(fn: Callable | None, text: str) -> bool:
    """Whether the result of a call has room in its first argument, so that it may be written there."""
    if fn is None:
        return True
    case = Case("", 0, fn, text)
    first, result = case.arguments()[0][0], case.run(*case.draw())
    if not isinstance(first, gl.Tensor) or not isinstance(result, gl.Tensor):
        return False
    return first.shape == result.shape and (first.is_complex() == result.is_complex())
