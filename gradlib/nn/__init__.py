"""Neural networks: modules, parameters, initialisation, functional forms."""

from __future__ import annotations

from . import attention, functional, grad, init, utils
from . import modules as modules
from . import parameter as parameter
from .modules import *
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter


def factory_kwargs(kwargs: dict | None) -> dict:
    """The entries device, dtype and memory_format of `kwargs`, checked.

    Raises:
        TypeError: another keyword, or one given twice.

    Example:
        >>> factory_kwargs({"dtype": "float64", "factory_kwargs": {"device": "cpu"}})
        {'device': 'cpu', 'dtype': 'float64'}
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
