"""Function transforms: functions that take a function and return its batched form, its gradient, its Jacobian.

They nest in any order: ``vmap(grad(f))`` gives the gradients of each sample, ``jacfwd(jacrev(f))`` the Hessian.
"""

from __future__ import annotations

from .._refused import refuse
from ._functionalize import functionalize
from ._grad import grad, grad_and_value, jvp, linearize, vjp
from ._jacobian import hessian, jacfwd, jacrev
from ._module import functional_call, stack_module_state
from ._vmap import vmap

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
    "stack_module_state",
    "vjp",
    "vmap",
]
__getattr__ = refuse(__name__)
