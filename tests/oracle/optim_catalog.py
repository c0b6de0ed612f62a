"""Runs PyTorch's own catalogue of optimizers (the OptimizerInfo database that PyTorch is tested with) on gradlib.

Every optimizer is run with every set of hyperparameters there, on the same parameters and gradients in both libraries:
parameters after each of ten steps, the text of the optimizer, its state (names, dtypes, shapes, values) and its groups
must be the same; so must be the steps after a state dict was taken from one library into the other, and the
exceptions and warnings of bad arguments. As a program:

    python tests/oracle/optim_catalog.py               # a line per optimizer that differs
    python tests/oracle/optim_catalog.py -v Adafactor  # every difference of these optimizers
"""

from __future__ import annotations

import argparse
import collections
import copy
import itertools
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from catalog_sample import Difference, Outside, as_array, convert, leaves, outcome, same_exception
from torch.testing._internal.common_optimizers import optim_db

import gradlib

STEPS = 10
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.complex128: 1e-10}
SHAPES = [(3, 4), (5,), (), (2, 1, 3), (4, 4), (0,)]
FLAGS: list[dict[str, bool]] = [{}, {"differentiable": True}, {"foreach": True}, {"fused": True}]


class Pair:
    """An optimizer of each library over equal parameters."""

    def __init__(self, info, kwargs: dict[str, Any], dtype: torch.dtype, grouped: bool = False):
        self.info, self.kwargs, self.dtype = info, kwargs, dtype
        self.name = info.optim_cls.__name__
        self.tolerance = TOLERANCE[dtype]
        if kwargs.get("differentiable") or isinstance(kwargs.get("lr"), torch.Tensor):
            self.tolerance = max(
                self.tolerance, 1e-4
            )  # constants of the step are float32 tensors there
        elif kwargs.get("foreach"):
            self.tolerance = max(self.tolerance, 1e-7)
        if self.name == "Muon":  # it iterates in bfloat16, where the order of a sum may show
            self.tolerance = 1e-3
        self.rng = np.random.default_rng(0)
        shapes = [(3, 4), (4, 3), (2, 2)] if self.name == "Muon" else SHAPES
        if self.name == "SparseAdam":
            shapes = [s for s in shapes if s and s != (0,)]
        self.params = [self.draw(s).requires_grad_() for s in shapes]
        self.ours = [self.mine(p).requires_grad_() for p in self.params]
        if kwargs.get("differentiable"):  # such a step is not done on leaves
            self.leaves = self.params, self.ours
            self.params = [p.clone() for p in self.params]
            self.ours = [p.clone() for p in self.ours]
        self.build(grouped)

    def draw(self, shape: tuple) -> torch.Tensor:
        value = self.rng.normal(size=shape)
        if self.dtype.is_complex:
            value = value + 1j * self.rng.normal(size=shape)
        return torch.tensor(value, dtype=self.dtype)

    @staticmethod
    def mine(tensor: torch.Tensor) -> gradlib.Tensor:
        return convert(tensor.detach().clone(), {})

    def build(self, grouped: bool) -> None:
        """The optimizers; `grouped`: the last parameters in a group with a learning rate of its own."""

        def groups(params):
            return (
                [{"params": params[:2]}, {"params": params[2:], "lr": 0.05}] if grouped else params
            )

        cls = getattr(gradlib.optim, self.name, None)
        if cls is None:
            raise Difference("missing")
        self.optim, failed = outcome(
            self.info.optim_cls, (groups(self.params),), copy.deepcopy(self.kwargs)
        )
        self.our_optim, our_failed = outcome(cls, (groups(self.ours),), convert(self.kwargs, {}))
        same_exception(failed, our_failed)
        if failed is not None:
            raise Outside

    def gradients(self, step: int) -> None:
        for i, (p, o) in enumerate(zip(self.params, self.ours, strict=True)):
            # now and then a parameter has no gradient (which PyTorch's fused SGD with momentum does not take)
            if (step + i) % 5 == 4 and not self.kwargs.get("fused"):
                p.grad = o.grad = None
                continue
            g = self.draw(tuple(p.shape))
            if self.name == "SparseAdam":
                g[step % g.shape[0]] = 0
                p.grad, o.grad = g.to_sparse(1), self.mine(g).to_sparse(1)
            else:
                p.grad, o.grad = g, self.mine(g)

    def steps(self, first: int, last: int) -> None:
        for k in range(first, last):
            if self.info.step_requires_closure:
                theirs, failed = outcome(
                    self.optim.step, (self.closure(torch, self.optim, self.params),), {}
                )
                ours, our_failed = outcome(
                    self.our_optim.step, (self.closure(gradlib, self.our_optim, self.ours),), {}
                )
            else:
                self.gradients(k)
                theirs, failed = outcome(self.optim.step, (), {})
                ours, our_failed = outcome(self.our_optim.step, (), {})
            same_exception(failed, our_failed)
            if failed is not None:
                raise Outside
            if (theirs is None) != (ours is None):
                raise Difference(f"step returns {theirs!r}, ours {ours!r}")
            for i, (p, o) in enumerate(zip(self.params, self.ours, strict=True)):
                same_value(f"parameter {i} after step {k + 1}", p, o, self.tolerance)

    @staticmethod
    def closure(lib, optim, params):
        def evaluate():
            optim.zero_grad()
            loss: Any = sum(
                (((p - 1) ** 2 + 0.1 * p**4).abs() ** 1.5).sum() for p in params if p.numel()
            )
            loss.backward()
            return loss

        return evaluate

    def state(self) -> None:
        if repr(self.optim) != repr(self.our_optim).replace("gradlib.", "torch."):
            raise Difference(f"text {self.optim!r}, ours {self.our_optim!r}")
        same_tree("state", self.optim.state_dict(), self.our_optim.state_dict(), self.tolerance)

    def exchange(self) -> None:
        """Each optimizer goes on with the other's state."""
        theirs, ours = self.optim.state_dict(), self.our_optim.state_dict()
        theirs, ours = convert(copy.deepcopy(theirs), {}), back(copy.deepcopy(ours))
        self.optim.load_state_dict(ours)
        self.our_optim.load_state_dict(theirs)
        self.state()


def back(value: Any) -> Any:
    """A state dict of gradlib with PyTorch's tensors."""
    if isinstance(value, gradlib.Tensor):
        return torch.tensor(value.numpy(force=True))
    if isinstance(value, dict):
        return {k: back(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(back(v) for v in value)
    return value


def same_value(what: str, theirs: torch.Tensor, ours: gradlib.Tensor, tolerance: float) -> None:
    a, b = as_array(theirs), ours.detach().numpy(force=True)
    if a.dtype != b.dtype or a.shape != b.shape:
        raise Difference(f"{what}: {a.dtype}{a.shape}, ours {b.dtype}{b.shape}")
    if not np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise Difference(
            f"{what}: {a.ravel()[:3]}, ours {b.ravel()[:3]}, by {np.abs(a - b).max():.1e}"
        )


def same_tree(what: str, theirs: Any, ours: Any, tolerance: float) -> None:
    """Difference unless two state dicts are the same."""
    if what.endswith("['t']"):  # LBFGS: the step length is a tensor where the learning rate is one
        theirs, ours = float(theirs), float(ours)
    if isinstance(theirs, torch.Tensor):
        if not isinstance(ours, gradlib.Tensor):
            raise Difference(f"{what}: a tensor, ours {type(ours).__name__}")
        same_value(what, theirs, ours, tolerance)
    elif isinstance(theirs, dict):
        if set(theirs) != set(ours):
            raise Difference(f"{what}: {list(theirs)}, ours {list(ours)}")
        for key, value in theirs.items():
            same_tree(f"{what}[{key!r}]", value, ours[key], tolerance)
    elif isinstance(theirs, (list, tuple)):
        if type(theirs) is not type(ours) or len(theirs) != len(ours):
            raise Difference(f"{what}: {theirs!r}, ours {ours!r}")
        for i, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            same_tree(f"{what}[{i}]", a, b, tolerance)
    elif {type(theirs), type(ours)} <= {int, float}:
        if not np.isclose(theirs, ours, rtol=tolerance, atol=tolerance):
            raise Difference(f"{what}: {theirs!r}, ours {ours!r}")
    elif theirs != ours or type(theirs) is not type(ours):
        raise Difference(f"{what}: {theirs!r}, ours {ours!r}")


def run(info, kwargs: dict[str, Any], dtype: torch.dtype, grouped: bool) -> None:
    pair = Pair(info, kwargs, dtype, grouped)
    pair.steps(0, STEPS // 2)
    pair.state()
    if not kwargs.get("differentiable"):  # a state with a history is not copied
        pair.exchange()
    pair.steps(STEPS // 2, STEPS)
    pair.state()


def bad_arguments(info, error) -> None:
    """An error of the catalogue: the same exception, or the same category of warning."""
    given = error.optimizer_error_input
    cls = getattr(gradlib.optim, info.optim_cls.__name__)
    memo: dict[int, Any] = {}
    params = convert(given.params, memo)
    for p in leaves(given.params, torch.Tensor):
        if p.grad is not None:
            memo[id(p)].grad = convert(p.grad, {})
    if error.error_type is UserWarning:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            cls(params, **convert(given.kwargs, {}))
        if not any(issubclass(w.category, UserWarning) for w in seen):
            raise Difference("torch warns; ours does not")
        return
    theirs, failed = outcome(lambda: info.optim_cls(given.params, **given.kwargs), (), {})
    ours, our_failed = outcome(lambda: cls(params, **convert(given.kwargs, {})), (), {})
    if failed is None and our_failed is None:
        theirs, failed = outcome(theirs.step, (), {})
        ours, our_failed = outcome(ours.step, (), {})
    same_exception(failed, our_failed)


def differences(info) -> Iterator[str]:
    """The differences of one optimizer, as lines."""
    for given in info.optim_inputs_func(device="cpu"):
        yield from differences_of(info, given)
    yield from refusals(info)


def differences_of(info, given) -> Iterator[str]:
    """The differences with one set of hyperparameters: in all dtypes, with all flags, in one group and in two."""
    dtypes = [torch.float64, torch.float32]
    if info.step_requires_closure:  # how often it evaluates depends on rounding
        dtypes.remove(torch.float32)
    if info.supports_complex and not info.step_requires_closure:
        dtypes.append(torch.complex128)
    for dtype, flags in itertools.product(dtypes, FLAGS):
        if any(f not in info.supported_impls for f in flags):
            continue
        kwargs = {**given.kwargs, **flags}
        if flags.get("foreach") and isinstance(kwargs.get("lr"), torch.Tensor):
            continue
        for grouped in (False, True):
            if grouped and (dtype is not torch.float64 or not info.supports_param_groups):
                continue
            label = f"{str(dtype)[6:]} {given.desc} {flags or ''}{' groups' if grouped else ''}"
            yield from line(label, lambda k=kwargs, d=dtype, g=grouped: run(info, k, d, g))


def refusals(info) -> Iterator[str]:
    """The differences in what is refused."""
    for k, error in enumerate(info.optim_error_inputs_func(device="cpu", dtype=torch.float64)):
        label = f"error #{k} {error.optimizer_error_input.desc}"
        yield from line(label, lambda e=error: bad_arguments(info, e))


def line(label: str, action) -> Iterator[str]:
    try:
        action()
    except Difference as exc:
        yield f"{label}: {exc}"
    except Outside:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="every difference of each optimizer"
    )
    given = parser.parse_args()
    total = collections.Counter()
    for info in optim_db:
        name: str = getattr(info.optim_cls, "__name__")  # noqa: B009
        if given.names and name not in given.names:
            continue
        found = list(differences(info))
        total["differ" if found else "agree"] += 1
        for text in found if given.verbose else found[:1]:
            more = f"  (+{len(found) - 1} more)" if len(found) > 1 and not given.verbose else ""
            print(f"{name}: {text}{more}", flush=True)
    print(dict(total))


if __name__ == "__main__":
    sys.exit(main())
