"""Recurrent layers."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from ...amp.autocast_mode import lowered
from ...operators import public as ops
from ...tape import modes
from ...tape.tensor import Tensor
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from . import _recurrence as recurrence
from .module import Module, changed
from .rnn_cell import GRUCell, LSTMCell, RNNCell, RNNCellBase

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """Parameters, checks and the walk over layers, directions and time of RNN, LSTM and GRU.

    Parameters start in U(-k, k), k = 1 / sqrt(hidden_size). With G the number of gates (RNN 1, GRU 3,
    LSTM 4), layer i has weight_ih_l{i} [G * hidden_size, size of its input], weight_hh_l{i}
    [G * hidden_size, size of h], and bias_ih_l{i} and bias_hh_l{i} [G * hidden_size]; those of the
    way back end in "_reverse". An LSTM with proj_size also has weight_hr_l{i} [proj_size, hidden_size].

    Args:
        mode: "RNN_TANH", "RNN_RELU", "GRU" or "LSTM".
        input_size: as in `LSTM`, like all that follow.

    Raises:
        ValueError: a size is not positive, dropout is outside of [0, 1], another mode.
        TypeError: a size is no int, a flag no bool.

    Example:
        >>> layer = nn.RNNBase("GRU", 4, 3)
        >>> tuple(layer.weight_ih_l0.shape)
        (9, 4)
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_settings(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        directions = 2 if bidirectional else 1
        out_size = proj_size if proj_size > 0 else hidden_size
        rows = _GATES[mode] * hidden_size
        self._names: list[list[str]] = []  # of the parameters of each layer and direction
        for layer in range(num_layers):
            in_size = input_size if layer == 0 else out_size * directions
            for suffix in ("", "_reverse")[:directions]:
                shapes = {"weight_ih": (rows, in_size), "weight_hh": (rows, out_size)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size > 0:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = {kind: f"{kind}_l{layer}{suffix}" for kind in shapes}
                for kind, name in names.items():
                    empty = ops.empty(shapes[kind], device=device, dtype=dtype)
                    setattr(self, name, Parameter(empty))
                self._names.append(list(names.values()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew, in place.

        They come from U(-k, k), k = 1 / sqrt(hidden_size).
        """
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, one list per layer and direction: weight_ih, weight_hh, then biases, then weight_hr.

        Example:
            >>> [tuple(w.shape) for w in nn.GRU(2, 3).all_weights[0]]
            [(9, 2), (9, 3), (9,), (9,)]
        """
        return [[getattr(self, name) for name in names] for names in self._names]

    def flatten_parameters(self) -> None:
        """Do nothing: parameters are used where they are; cuDNN in PyTorch wants them in one piece.

        Accepted so that programs that call it run.
        """

    def extra_repr(self) -> str:
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False}
        rest = changed(self, **usual, dropout=0, bidirectional=False)
        return f"{self.input_size}, {self.hidden_size}{rest}"

    def _hidden_shape(self, n: int, size: int) -> tuple[int, int, int]:
        return (self.num_layers * (2 if self.bidirectional else 1), n, size)

    def _state_shapes(self, n: int) -> list[tuple[int, int, int]]:
        """Shapes of the states: h, and c of an LSTM."""
        shapes = [self._hidden_shape(n, self.proj_size or self.hidden_size)]
        if self.mode == "LSTM":
            shapes.append(self._hidden_shape(n, self.hidden_size))
        return shapes

    def _check_input(self, input: Tensor, packed: bool) -> None:
        expected = 2 if packed else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            )
        weight = self.all_weights[0][0]
        if input.dtype != weight.dtype and not modes.state.bits & modes.AUTOCAST:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )

    def _check_states(self, states: tuple[Tensor, ...], n: int) -> None:
        labels = ["hidden[0]", "hidden[1]"] if self.mode == "LSTM" else ["hidden"]
        for label, state, shape in zip(labels, states, self._state_shapes(n)):
            if tuple(state.size()) != shape:
                raise RuntimeError(f"Expected {label} size {shape}, got {list(state.size())}")

    def _run(self, input: Any, states: tuple[Tensor, ...] | None) -> tuple[Any, tuple]:
        """Result and last states for a packed sequence, [T, N, *], [N, T, *] or [T, *]."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, states)
        name = self.mode[:3] if self.mode.startswith("RNN") else self.mode
        if input.dim() not in (2, 3):
            kind = " tensor" if name == "RNN" else ""
            raise ValueError(
                f"{name}: Expected input to be 2D or 3D, got {input.dim()}D{kind} instead"
            )
        batched = input.dim() == 3
        self._check_state_dims(states, batched)
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
            states = None if states is None else tuple(s.unsqueeze(1) for s in states)
        self._check_input(input, packed=False)
        if self.batch_first:
            input = input.transpose(0, 1)
        n = input.size(1)
        if states is None:
            states = self._zero_states(input, n)
        self._check_states(states, n)
        output, states = self._layers(input, [n] * input.size(0), states)
        if self.batch_first:
            output = output.transpose(0, 1)
        if not batched:
            output = output.squeeze(batch_dim)
            states = tuple(s.squeeze(1) for s in states)
        return output, states

    def _check_state_dims(self, states: tuple[Tensor, ...] | None, batched: bool) -> None:
        wanted = 3 if batched else 2
        if states is None or all(s.dim() == wanted for s in states):
            return
        form = "batched 3-D" if batched else "unbatched 2-D"
        if self.mode == "LSTM":
            dims = ", ".join(f"{s.dim()}-D" for s in states)
            raise RuntimeError(
                f"For {form} input, hx and cx should also be {wanted}-D but got ({dims}) tensors"
            )
        raise RuntimeError(
            f"For {form} input, hx should also be {wanted}-D but got {states[0].dim()}-D tensor"
        )

    def _zero_states(self, like: Tensor, n: int) -> tuple[Tensor, ...]:
        return tuple(
            ops.zeros(shape, dtype=like.dtype, device=like.device)
            for shape in self._state_shapes(n)
        )

    def _run_packed(
        self, input: PackedSequence, states: tuple[Tensor, ...] | None
    ) -> tuple[PackedSequence, tuple]:
        data, batch_sizes, sorted_indices, unsorted_indices = input
        self._check_input(data, packed=True)
        sizes = batch_sizes.tolist()
        if states is None:
            states = self._zero_states(data, sizes[0])
        elif sorted_indices is not None:
            states = tuple(s.index_select(1, sorted_indices) for s in states)
        self._check_states(states, sizes[0])
        output, states = self._layers(data, sizes, states)
        if unsorted_indices is not None:
            states = tuple(s.index_select(1, unsorted_indices) for s in states)
        return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), states

    def _autocast(self, x: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """A sequence and its states in autocast's dtype for products, where the whole layer runs in it.

        On the CPU that is the plain LSTM; of the others only the products do, and float32 states stay float32.
        """

        if x.is_cuda or (self.mode == "LSTM" and not self.proj_size):
            return lowered(x), tuple(lowered(s) for s in states)
        return x, states

    def _layers(
        self, x: Tensor, sizes: list[int], states: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """x: [T, N, *], or [sum of sizes, *] when packed -> the same form, last states."""
        if not sizes:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        if modes.state.bits & modes.AUTOCAST:
            x, states = self._autocast(x, states)
        cells = [recurrence.cell_of(self.mode, self.bias, w) for w in self.all_weights]
        dropout = self.dropout if self.training else 0.0
        return recurrence.in_layers(cells, x, sizes, states, self.bidirectional, dropout)


def _check_settings(
    input_size: Any,
    hidden_size: Any,
    num_layers: Any,
    bias: Any,
    batch_first: Any,
    dropout: Any,
    proj_size: Any,
) -> None:
    if (
        not isinstance(dropout, numbers.Number)
        or not 0 <= dropout <= 1  # type: ignore[operator]
        or isinstance(dropout, bool)
    ):
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an "
            "element being zeroed"
        )
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNN(RNNBase):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), in layers; or relu for tanh.

    Args:
        input_size: size of x_t.
        hidden_size: size H of h_t.
        num_layers: layers, each on the results of the one before.
        nonlinearity: "tanh" or "relu".
        bias: whether there are b_ih and b_hh.
        batch_first: sequences are [N, T, *] instead of [T, N, *].
        dropout: probability of dropping a result between layers, in training mode.
        bidirectional: also run from the end; results are concatenated.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        input: [T, N, input_size], [N, T, input_size] with batch_first, [T, input_size], or packed.
        hx: [num_layers * directions, N, H], without N for a single sequence; zeros by default.
        results: (output, h): each h_t of the last layer [T, N, directions * H], in the form of the
        input, and the last h of each layer, in the form of hx.

    Raises:
        ValueError: a size is not positive, dropout is outside of [0, 1], another nonlinearity.
        RuntimeError: at the call, if a size does not fit.

    Source: J. Elman, Finding structure in time, Cognitive Science 14 (1990).

    Example:
        >>> out, h = nn.RNN(10, 20, 2)(gradlib.randn(5, 3, 10))
        >>> tuple(out.shape), tuple(h.shape)
        ((5, 3, 20), (2, 3, 20))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Run the layers over `input`.

        Args:
            input: [T, N, input_size], [N, T, input_size] with batch_first, [T, input_size], or packed.
            hx: [num_layers * directions, N, hidden_size], without N for a single sequence; None is zeros.

        Returns:
            (output, h): each h_t of the last layer [T, N, directions * hidden_size], in the form of the
            input, and the last h of each layer, in the form of hx.
        """
        output, states = self._run(input, None if hx is None else (hx,))
        return output, states[0]


class LSTM(RNNBase):
    """Long short-term memory: gates i, f, o and the candidate g decide what a cell keeps.

    c_t = f * c_(t-1) + i * g and h_t = o * tanh(c_t), with i, f, o = sigmoid and g = tanh of
    W_ih x_t + b_ih + W_hh h_(t-1) + b_hh.

    Args:
        input_size: size of x_t.
        hidden_size: size H of c_t and h_t.
        num_layers: layers, each on the results of the one before.
        bias: whether there are b_ih and b_hh.
        batch_first: sequences are [N, T, *] instead of [T, N, *].
        dropout: probability of dropping a result between layers, in training mode.
        bidirectional: also run from the end; results are concatenated.
        proj_size: if positive, h_t is projected to this size, which is less than hidden_size.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        input: [T, N, input_size], [N, T, input_size] with batch_first, [T, input_size], or packed.
        hx: (h, c), [num_layers * directions, N, H] each, without N for a single sequence.
        results: (output, (h, c)): each h_t of the last layer [T, N, directions * H], in the form of
        the input, and the last states of each layer, in the form of hx. With proj_size, h has that size.

    Raises:
        ValueError: a size is not positive, dropout is outside of [0, 1].
        RuntimeError: at the call, if a size does not fit, or hx has more than two states.
        IndexError: at the call, if hx has one state.

    Source: S. Hochreiter, J. Schmidhuber, Long short-term memory, Neural Computation 9 (1997);
    projections: H. Sak et al., arXiv:1402.1128.

    Example:
        >>> out, (h, c) = nn.LSTM(10, 20, 2)(gradlib.randn(5, 3, 10))
        >>> tuple(out.shape), tuple(c.shape)
        ((5, 3, 20), (2, 3, 20))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Run the layers over `input`.

        Args:
            input: [T, N, input_size], [N, T, input_size] with batch_first, [T, input_size], or packed.
            hx: (h, c), [num_layers * directions, N, hidden_size] each, without N for a single sequence;
                None is zeros.

        Returns:
            (output, (h, c)): each h_t of the last layer, in the form of the input, and the last states
            of each layer, in the form of hx.
        """
        if hx is not None:
            if len(hx) > 2:
                raise RuntimeError("lstm expects two hidden states")
            hx = hx[0], hx[1]
        output, (h, c) = self._run(input, hx)
        return output, (h, c)


class GRU(RNNBase):
    """Gated recurrent unit: h_t = (1 - z) * n + z * h_(t-1).

    r, z = sigmoid(W_i x_t + b_i + W_h h_(t-1) + b_h), n = tanh(W_in x_t + b_in + r * (W_hn
    h_(t-1) + b_hn)). Arguments and errors as in `LSTM`, without proj_size; shapes as in `RNN`.

    Source: K. Cho et al., Learning phrase representations using RNN encoder-decoder,
    EMNLP 2014.

    Example:
        >>> out, h = nn.GRU(10, 20, bidirectional=True)(gradlib.randn(5, 3, 10))
        >>> tuple(out.shape), tuple(h.shape)
        ((5, 3, 40), (2, 3, 20))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Run the layers over `input`; arguments and results as in `RNN.forward`.

        Args:
            input: [T, N, input_size], [N, T, input_size] with batch_first, [T, input_size], or packed.
            hx: [num_layers * directions, N, hidden_size], without N for a single sequence; None is zeros.
        """
        output, states = self._run(input, None if hx is None else (hx,))
        return output, states[0]
