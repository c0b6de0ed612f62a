"""What PyTorch's nested and quantized tensors are asked: here there are none, and tensors answer so.

Questions that a plain tensor has an answer to are answered; the others raise what PyTorch raises for a plain tensor.
"""

from __future__ import annotations

from typing import Any

from ..op.expose import method
from ..tape import errors
from ..tape.tensor import Tensor

_OTHERS = (
    "to_mkldnn q_scale q_zero_point q_per_channel_scales "
    "q_per_channel_zero_points q_per_channel_axis qscheme int_repr to_padded_tensor _nested_tensor_size "
    "_nested_tensor_strides _nested_tensor_storage_offsets"
)
_DEVICES = {
    "xpu": (AssertionError, "Torch not compiled with XPU enabled"),
    "mtia": (AssertionError, "Torch not compiled with MTIA enabled"),
    "ipu": (RuntimeError, "PyTorch is not linked with support for ipu devices"),
}


def _publish(name: str, kind: type[Exception], error: str, text: str, asked: str) -> None:
    def refused(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise kind(error)

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"""{text}

Raises:
    {kind.__name__}: always.

Example:
    >>> gradlib.ones(1).{asked}
    False
"""
    method(name)(refused)


def _refuse() -> None:
    """Publish the methods that tensors here have no answer to."""
    for name in _OTHERS.split():
        error = f"Could not run '{name}': gradlib has no such tensors"
        text = "Of nested or quantized tensors, which there are none of."
        quantized = name.startswith("q") or name == "int_repr"
        asked = "is_quantized" if quantized else "is_nested" if "nest" in name else "is_sparse"
        _publish(name, NotImplementedError, error, text, asked)
    error, text = (
        "gradlib has no complex32: use cfloat()",
        "Complex numbers of two float16, which are not here.",
    )
    _publish("chalf", NotImplementedError, error, text, "is_complex()")
    for name, (kind, error) in _DEVICES.items():
        _publish(name, kind, error, "A copy on a device that there is none of.", f"is_{name}")


_refuse()


@method("dequantize")
def dequantize(self):
    """This tensor in float32, since none is quantized.

    Example:
        >>> gradlib.tensor([1]).dequantize()
        tensor([1.])
    """
    return self.float()


@method("is_distributed")
def is_distributed(self) -> bool:
    """False: no tensor lies on several machines.

    Example:
        >>> gradlib.ones(1).is_distributed()
        False
    """
    return False


@method("_is_zerotensor")
def _is_zerotensor(self) -> bool:
    """False: every tensor has memory for its zeros.

    Example:
        >>> gradlib.zeros(1)._is_zerotensor()
        False
    """
    return False


def _of_bools(self: Tensor, name: str) -> Tensor:
    if self._array.dtype.kind != "b":
        raise RuntimeError(f"{name} expects a bool tensor, but got {errors.tensor_type(self)}")
    return self


@method("_is_all_true")
def _is_all_true(self):
    """Whether all elements of a bool tensor are True, as a tensor; RuntimeError for another dtype."""
    return _of_bools(self, "_is_all_true").all()


@method("_is_any_true")
def _is_any_true(self):
    """Whether one element of a bool tensor is True, as a tensor; RuntimeError for another dtype."""
    return _of_bools(self, "_is_any_true").any()


@method("reinforce")
def reinforce(self, reward):
    """Gone from PyTorch, too: the loss is minus the logarithm of the probability of what was drawn, times the reward.

    Raises:
        RuntimeError: always.

    Example:
        >>> probability, reward = gradlib.tensor(0.5), 2.0
        >>> -probability.log() * reward
        tensor(1.3863)
    """
    raise RuntimeError(
        "reinforce() was removed. Use torch.distributions instead: the loss is minus the logarithm of the probability "
        "of what was drawn, times the reward."
    )
