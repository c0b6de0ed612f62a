"""Function transforms: functions that take a function and return its batched form, its gradient, its Jacobian.

They nest in any order: ``vmap(grad(f))`` gives the gradients of each sample, ``jacfwd(jacrev(f))`` the Hessian.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._refused import refuse
from ._functionalize import functionalize
from ._grad import grad, grad_and_value, jvp, linearize, vjp
from ._jacobian import hessian, jacfwd, jacrev
from ._module import functional_call, stack_module_state
from ._vmap import vmap

if TYPE_CHECKING:
    from ..nn.modules.batchnorm import replace_all_batch_norm_modules_

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
_absent = refuse(__name__)


def __getattr__(name: str) -> Any:
    if name == "replace_all_batch_norm_modules_":  # of nn, which is imported on first use
        value = globals()[name] = getattr(import_module("gradlib.nn.modules.batchnorm"), name)
        return value
    return _absent(name)
