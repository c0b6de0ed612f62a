"""Recurrent cells: one time step."""

from __future__ import annotations

import math
from typing import Any

from ...operators import public as ops
from ...tape.tensor import Tensor
from .. import init
from ..parameter import add_parameter
from ._recurrence import GRUCellStep, LSTMCellStep, SimpleCell, relu, tanh
from .module import Module, changed

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Parameters of a cell; they start in U(-k, k), k = 1 / sqrt(hidden_size).

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are bias_ih and bias_hh.
        num_chunks: the number of gates: RNN 1, GRU 3, LSTM 4.
        device: of the parameters.
        dtype: of the parameters.

    Attributes:
        weight_ih: Parameter [num_chunks * hidden_size, input_size].
        weight_hh: Parameter [num_chunks * hidden_size, hidden_size].
        bias_ih: Parameter [num_chunks * hidden_size] or None.
        bias_hh: Parameter [num_chunks * hidden_size] or None.

    Example:
        >>> cell = nn.RNNCellBase(4, 3, bias=True, num_chunks=2)
        >>> tuple(cell.weight_hh.shape)
        (6, 3)
    """

    bias_ih: Any
    bias_hh: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        add_parameter(self, "weight_ih", (rows, input_size), True, **place)
        add_parameter(self, "weight_hh", (rows, hidden_size), True, **place)
        add_parameter(self, "bias_ih", rows, bias, **place)
        add_parameter(self, "bias_hh", rows, bias, **place)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew, in place.

        They come from U(-k, k), k = 1 / sqrt(hidden_size).
        """
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        usual = {"nonlinearity": "tanh"} if hasattr(self, "nonlinearity") else {}
        return f"{self.input_size}, {self.hidden_size}{changed(self, bias=True, **usual)}"

    def _weights(self) -> tuple[Any, Any, Any, Any]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _advance(self, cell: Any, input: Tensor, hx: Any) -> tuple[Tensor, ...]:
        """One step for [N, in] or [in]; states are made of zeros when there are none."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        states = () if hx is None else hx if isinstance(hx, tuple) else (hx,)
        for i, state in enumerate(states):
            if state.dim() not in (1, 2):
                label = f"hx[{i}]" if isinstance(hx, tuple) else "hidden"
                raise ValueError(
                    f"{name}: Expected {label} to be 1D or 2D, got {state.dim()}D instead"
                )
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
            states = tuple(s.unsqueeze(0) for s in states)
        if not states:
            shape = (input.size(0), self.hidden_size)
            zeros = ops.zeros(shape, dtype=input.dtype, device=input.device)
            states = (zeros, zeros)[: 2 if isinstance(cell, LSTMCellStep) else 1]
        states = cell.step(cell.project(input), states)
        return states if batched else tuple(s.squeeze(0) for s in states)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu for tanh: one step of `RNN`.

    Args:
        input_size: size of x.
        hidden_size: size of h.
        bias: whether there are b_ih and b_hh.
        nonlinearity: "tanh" or "relu".
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        x: [N, input_size] or [input_size]; h: [N, hidden_size] or [hidden_size], zeros by default
        -> h' in the shape of h.

    Raises:
        RuntimeError: at the call, another nonlinearity, or a size that does not fit.
        ValueError: at the call, for another number of dimensions.

    Example:
        >>> tuple(nn.RNNCell(10, 20)(gradlib.randn(3, 10)).shape)
        (3, 20)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """input: [N, in] or [in], hx: [N, hidden] or [hidden] -> h'."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        activation = tanh if self.nonlinearity == "tanh" else relu
        return self._advance(SimpleCell(activation, *self._weights()), input, hx)[0]


class _GatedCell(RNNCellBase):
    _gates: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, self._gates, device, dtype)


class LSTMCell(_GatedCell):
    """One step of `LSTM`, whose formulas it has.

    Args:
        input_size: size of x.
        hidden_size: size of h and c.
        bias: whether there are b_ih and b_hh.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        x: [N, input_size] or [input_size]; (h, c): [N, hidden_size] or [hidden_size] each, zeros by
        default -> (h', c') in the shapes of h and c.

    Raises:
        RuntimeError: at the call, if a size does not fit.
        ValueError: at the call, for another number of dimensions.

    Example:
        >>> h, c = nn.LSTMCell(10, 20)(gradlib.randn(3, 10))
        >>> tuple(h.shape), tuple(c.shape)
        ((3, 20), (3, 20))
    """

    _gates = 4

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """input: [N, in] or [in], hx: (h, c), [N, hidden] or [hidden] each -> (h', c')."""
        states = None if hx is None else tuple(hx)
        h, c = self._advance(LSTMCellStep(*self._weights()), input, states)
        return h, c


class GRUCell(_GatedCell):
    """One step of `GRU`, whose formulas it has.

    Args:
        input_size: size of x.
        hidden_size: size of h.
        bias: whether there are b_ih and b_hh.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        x: [N, input_size] or [input_size]; h: [N, hidden_size] or [hidden_size], zeros by default
        -> h' in the shape of h.

    Raises:
        RuntimeError: at the call, if a size does not fit.
        ValueError: at the call, for another number of dimensions.

    Example:
        >>> tuple(nn.GRUCell(10, 20)(gradlib.randn(3, 10)).shape)
        (3, 20)
    """

    _gates = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """input: [N, in] or [in], hx: [N, hidden] or [hidden] -> h'."""
        return self._advance(GRUCellStep(*self._weights()), input, hx)[0]
