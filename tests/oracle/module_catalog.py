"""Runs PyTorch's own catalogue of modules (the ModuleInfo database that PyTorch is tested with) on gradlib.

Each input of the catalogue is run by both libraries, in training and in evaluation, with the same parameters: the text
of the module, the names and shapes of its state, results, first and second gradients with respect to inputs and
parameters, the buffers afterwards, and the exceptions of bad input must be the same. As a program:

    python tests/oracle/module_catalog.py                  # a line per module that differs
    python tests/oracle/module_catalog.py -v nn.LSTM       # every difference of these modules
"""

from __future__ import annotations

import argparse
import collections
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from catalog_sample import (
    TOLERANCE,
    Difference,
    Outside,
    Sample,
    compare,
    convert,
    leaves,
    outcome,
    same_exception,
)
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

import gradlib

DTYPES = (torch.float64, torch.float32)
# differences kept on purpose: module -> (what the line says, why)
DIFFERENCES: dict[str, tuple[str, str]] = {}


def module_of(value: torch.nn.Module) -> gradlib.nn.Module:
    """gradlib's module for one that the catalogue gives as an argument."""
    if isinstance(value, torch.nn.TransformerEncoderLayer):
        return gradlib.nn.TransformerEncoderLayer(
            value.self_attn.embed_dim,
            value.self_attn.num_heads,
            value.linear1.out_features,
            value.dropout.p,
            function_of(value.activation),
            value.norm1.eps,
            value.self_attn.batch_first,
            value.norm_first,
            value.linear1.bias is not None,
            dtype=convert(value.linear1.weight.dtype, {}),
        )
    return getattr(gradlib.nn, type(value).__name__)()


def function_of(value: Any) -> Any:
    """gradlib's function of the same name."""
    return getattr(gradlib.nn.functional, value.__name__)


def converted(value: Any, memo: dict[int, Any]) -> Any:
    """`catalog.convert`, and modules and functions."""
    if isinstance(value, torch.nn.Module):
        return module_of(value)
    if (
        callable(value)
        and getattr(torch.nn.functional, getattr(value, "__name__", ""), None) is value
    ):
        return function_of(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(converted(v, memo) for v in value)
    if isinstance(value, list):
        return [converted(v, memo) for v in value]
    if isinstance(value, dict):
        return {k: converted(v, memo) for k, v in value.items()}
    return convert(value, memo)


class ModuleSample(Sample):
    """One input of a module run by both libraries."""

    def __init__(self, info, given, dtype: torch.dtype, training: bool):
        self.info, self.dtype, self.training, self.memo = info, dtype, training, {}
        self.tolerance = TOLERANCE[dtype]
        self.given = given
        name = info.name.removeprefix("nn.")
        if not hasattr(gradlib.nn, name):
            raise Difference("missing")
        self.cls = getattr(gradlib.nn, name)
        build = given.constructor_input
        self.build = (build.args, build.kwargs)
        self.our_build = (converted(build.args, self.memo), converted(build.kwargs, self.memo))
        forward = given.forward_input
        self.args, self.kwargs = (forward.args, forward.kwargs) if forward is not None else ((), {})
        for t in leaves((self.args, self.kwargs), torch.Tensor):
            t.requires_grad_(t.is_floating_point())
        self.our_args, self.our_kwargs = (
            convert(self.args, self.memo),
            convert(self.kwargs, self.memo),
        )
        self.rng = np.random.default_rng(0)

    def construct(self) -> bool:
        """Both modules, with one state; whether there is something to run."""
        cls = self.info.module_cls
        self.module, failed = outcome(cls, *self.build)
        self.ours, our_failed = outcome(self.cls, *self.our_build)
        same_exception(failed, our_failed)
        if failed is not None:
            return False
        self.module.to(self.dtype).train(self.training)
        self.ours.to(convert(self.dtype, {})).train(self.training)
        if self.info.is_lazy:
            self.module(*self.args, **self.kwargs)
            self.ours(*self.our_args, **self.our_kwargs)
        if repr(self.module) != repr(self.ours):
            raise Difference(f"text {self.module!r}, ours {self.ours!r}")
        state, mine = self.module.state_dict(), self.ours.state_dict()
        shapes = {k: tuple(v.shape) for k, v in state.items()}
        our_shapes = {k: tuple(v.shape) for k, v in mine.items()}
        if list(shapes.items()) != list(our_shapes.items()):
            raise Difference(f"state {shapes}, ours {our_shapes}")
        self.ours.load_state_dict({k: convert(v.detach(), {}) for k, v in state.items()})
        return True

    def buffers(self) -> None:
        ours = dict(self.ours.named_buffers())
        for name, value in self.module.named_buffers():
            compare(f"buffer {name}", value, ours[name], self.tolerance * 10)

    def run(self, grads: bool) -> None:
        if not self.construct():
            return
        torch.manual_seed(0)
        theirs, failed = outcome(self.module, self.args, self.kwargs)
        ours, our_failed = outcome(self.ours, self.our_args, self.our_kwargs)
        same_exception(failed, our_failed)
        if failed is not None:
            return
        a, b = list(leaves(theirs, torch.Tensor)), list(leaves(ours, gradlib.Tensor))
        if len(a) != len(b):
            raise Difference(f"{len(a)} results, ours {len(b)}")
        for k, (t, o) in enumerate(zip(a, b, strict=True)):
            compare(f"result {k}", t, o, self.tolerance * 10)
            if t.requires_grad != o.requires_grad:
                raise Difference(
                    f"result {k}: requires_grad {t.requires_grad}, ours {o.requires_grad}"
                )
        self.buffers()
        if grads:
            params = dict(self.ours.named_parameters())
            self.inputs = [
                t for t in leaves((self.args, self.kwargs), torch.Tensor) if t.requires_grad
            ]
            self.our_inputs = [self.memo[id(t)] for t in self.inputs]
            for name, p in self.module.named_parameters():
                if p.requires_grad != params[name].requires_grad:
                    raise Difference(f"{name}: requires_grad {p.requires_grad}")
                if p.requires_grad:
                    self.inputs.append(p)
                    self.our_inputs.append(params[name])
            self.gradients(a, b)


def inputs_of(info, dtype: torch.dtype, training: bool, limit: int) -> list:
    """Up to `limit` inputs, spread over all that there are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        every = info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=False, training=training
        )
    step = max(1, len(every) // limit)
    return every[::step][:limit]


def differences(info, limit: int = 12) -> Iterator[str]:
    """The differences of one module, as lines."""
    for dtype in DTYPES:
        for training in (True, False):
            for k, given in enumerate(inputs_of(info, dtype, training, limit)):
                label = f"{str(dtype)[6:]} {'train' if training else 'eval'} #{k} {given.desc}"
                yield from line(info, label, given, dtype, training, dtype is torch.float64)
    if info.module_error_inputs_func is None:
        return
    for k, error in enumerate(
        info.module_error_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=False, training=True
        )
    ):
        given = error.module_error_input
        if error.error_on == ModuleErrorEnum.CONSTRUCTION_ERROR:
            given.forward_input = None
        yield from line(info, f"error #{k}", given, torch.float64, True, False)


def line(info, label: str, given, dtype, training: bool, grads: bool) -> Iterator[str]:
    """One input: nothing, or its difference."""
    try:
        ModuleSample(info, given, dtype, training).run(grads)
    except Difference as exc:
        kept = DIFFERENCES.get(info.name)
        if kept is None or kept[0] not in str(exc):
            yield f"{label} {given.constructor_input.args} {given.constructor_input.kwargs}: {exc}"
    except Outside:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="every difference of each module"
    )
    parser.add_argument(
        "--limit", type=int, default=12, help="inputs of each module, dtype and mode"
    )
    given = parser.parse_args()
    total = collections.Counter()
    for info in module_db:
        if given.names and info.name not in given.names:
            continue
        found = list(differences(info, given.limit))
        total["differ" if found else "agree"] += 1
        for text in found if given.verbose else found[:1]:
            more = f"  (+{len(found) - 1} more)" if len(found) > 1 and not given.verbose else ""
            print(f"{info.name}: {text}{more}", flush=True)
    print(dict(total))


if __name__ == "__main__":
    sys.exit(main())
