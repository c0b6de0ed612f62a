"""Checks of calls that answer with something else than tensors: the answer is the same wherever it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib as gl
from gradlib import func
from gradlib.utils.checkpoint import checkpoint

from .batching import SIZE
from .cases import Case
from .compare import Inapplicable, is_float, waves

# what a transform may say where one number would have to stand for the values of all entries
REFUSED = (
    "vmap: It looks like you're",
    "data-dependent control flow",
    "Can't call numpy() on Tensor",
    "Cannot access data pointer",
    "doesn't have storage",
    "asks for the values of a tensor of the batch",
)


def _plain(answer: Any) -> Any:
    if isinstance(answer, np.ndarray):
        return answer.tolist()
    if isinstance(answer, (list, tuple)):
        return [_plain(a) for a in answer]
    return answer


def _alone(case: Case) -> list[gl.Tensor]:
    tensors = case.draw()
    if not tensors:
        raise Inapplicable("no tensor")
    if not case.answers:
        raise Inapplicable("tensors come out")
    return tensors


def asked(case: Case) -> None:
    """In vmap, with tangents, with gradients, in other modes and checkpointed."""
    tensors = _alone(case)
    wanted = _plain(case.run(*tensors))
    floats = [k for k, t in enumerate(tensors) if is_float(t)]

    def told(*new: gl.Tensor) -> gl.Tensor:
        full = list(tensors)
        for k, t in zip(floats, new, strict=True):
            full[k] = t
        answers.append(_plain(case.run(*full)))
        return sum((t.abs().sum() for t in new), gl.zeros(()))  # type: ignore[return-value]

    answers: list[Any] = []
    xs = tuple(tensors[k] for k in floats)
    places: dict[str, Callable[[], Any]] = {
        "requires grad": lambda: told(*[x.clone().requires_grad_() for x in xs])
    }
    if floats:
        places |= {
            "grad": lambda: func.grad(told, tuple(range(len(xs))))(*xs),
            "jvp": lambda: func.jvp(told, xs, tuple(waves(x) for x in xs)),
            "no_grad": lambda: gl.no_grad()(told)(*xs),
            "inference_mode": lambda: gl.inference_mode()(told)(*xs),
            "functionalize": lambda: func.functionalize(told)(*xs),
            "checkpoint": lambda: checkpoint(told, *xs, use_reentrant=False),
        }
    for what, call in places.items():
        _agree(call, answers, [wanted], what)
    each = [case.draw(k) for k in range(SIZE)]
    batched = [gl.stack(list(c)) for c in zip(*each, strict=True)]

    def entry(*new: gl.Tensor) -> gl.Tensor:
        answers.append(_plain(case.run(*new)))
        return new[0]

    said = [_plain(case.run(*e)) for e in each]
    if said.count(said[0]) == len(said):
        _agree(lambda: func.vmap(entry)(*batched), answers, [said[0]], "vmap")
    else:  # no answer is right
        _agree(lambda: func.vmap(entry)(*batched), answers, None, "vmap")


def _agree(call: Callable[[], Any], answers: list, wanted: list | None, what: str) -> None:
    answers.clear()
    try:
        call()
    except RuntimeError as exc:
        if not any(text in str(exc) for text in REFUSED):
            raise AssertionError(f"{what}: {exc}") from exc
        return
    assert wanted is not None, f"{what}: one answer for entries that differ: {answers[0]!r}"
    assert all(a == wanted[0] or (a != a) for a in answers), (
        f"{what}: {answers[0]!r} instead of {wanted[0]!r}"
    )
    assert answers, f"{what}: not called"


CHECKS = {"asked": asked}
