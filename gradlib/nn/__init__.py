"""Neural networks: modules, parameters, initialisation, functional forms."""

from __future__ import annotations

from gradlib.nn import functional, init, utils
from gradlib.nn import modules as modules
from gradlib.nn import parameter as parameter
from gradlib.nn.modules import *
from gradlib.nn.modules.module import Module
from gradlib.nn.parallel import DataParallel
from gradlib.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)


def factory_kwargs(kwargs: dict | None) -> dict:
    """The entries device, dtype and memory_format of `kwargs`, checked.

    Raises:
        TypeError: another keyword, or one given twice.
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    out = dict(kwargs.get("factory_kwargs", {}))
    rest = {k: v for k, v in kwargs.items() if k != "factory_kwargs"}
    unknown = set(rest) - simple
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    for key, value in rest.items():
        if key in out:
            raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
        out[key] = value
    return out
