"""Recurrent networks as functions of their weights: ``gradlib.lstm``, ``gradlib.gru_cell`` and their kin.

PyTorch's own layers call them as ``torch._VF.lstm``, and so do programs that began as a copy of those.
"""

# ruff: noqa: N999  # PyTorch's name

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from .nn.modules import _recurrence as recurrence
from .tape.tensor import Tensor


def _layers(mode: str) -> Callable[..., tuple[Tensor, ...]]:
    def run(input: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        packed = isinstance(arguments[2], list | tuple)
        if packed:  # (data, batch_sizes, hx, params...)
            sizes = arguments[0].tolist()
            hx, params, biases, layers, dropout, train, bidirectional = arguments[1:]
            batch_first = False
        else:
            hx, params, biases, layers, dropout, train, bidirectional, batch_first = arguments
            input = input.transpose(0, 1) if batch_first else input
            sizes = [input.shape[1]] * input.shape[0]
        if not sizes:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        states = tuple(hx) if mode == "LSTM" else (hx,)
        cells = _cells(mode, params, biases, layers * (2 if bidirectional else 1))
        output, states = recurrence.in_layers(
            cells, input, sizes, states, bidirectional, dropout if train else 0.0
        )
        return (output.transpose(0, 1) if batch_first else output, *states)

    layer, name = mode.partition("_")[0], mode.lower()
    state = "(h, c)" if mode == "LSTM" else "h"
    doc = f"""The layers of ``nn.{layer}`` as a function of their weights.

Args:
    input: [T, N, in], or [N, T, in] with `batch_first`; or packed [sum of sizes, in].
    arguments: the `batch_sizes` of packed data first; then `hx` ({state} of [layers * directions, N, H]), `params`
        (weights in the order of ``nn.{layer}(...).parameters()``), `has_biases`, `num_layers`, `dropout`, `train`,
        `bidirectional`, and `batch_first`, which packed data has not.

Returns:
    The results of the last layer, then {state}.

Raises:
    RuntimeError: the sequence is empty, or the number of weights does not fit.

Example:
    >>> layer, h = nn.{layer}(2, 3), gradlib.zeros(1, 1, 3)
    >>> weights = list(layer.parameters())
    >>> settings = weights, True, 1, 0.0, False, False, False
    >>> out = gradlib.{name}(gradlib.ones(4, 1, 2), {state.replace("c", "h")}, *settings)
    >>> tuple(out[0].shape)
    (4, 1, 3)
"""
    return _named(run, name, doc)


def _cells(mode: str, params: Sequence[Tensor], biases: bool, count: int) -> list[Any]:
    """The cells of flat weights."""
    each, rest = divmod(len(params), count)
    least = 4 if biases else 2
    if rest or each not in ((least, least + 1) if mode == "LSTM" else (least,)):
        raise RuntimeError(
            f"{mode.lower()}: {count} layers and directions do not have {len(params)} weights"
        )
    return [
        recurrence.cell_of(mode, biases, list(params[i * each : (i + 1) * each]))
        for i in range(count)
    ]


def _cell(mode: str) -> Callable[..., Any]:
    def step(
        input: Tensor,
        hx: Any,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:
        cell = recurrence.cell_of(mode, True, [w_ih, w_hh, b_ih, b_hh])
        states = cell.step(cell.project(input), tuple(hx) if mode == "LSTM" else (hx,))
        return states if mode == "LSTM" else states[0]

    two = mode == "LSTM"
    return _named(
        step,
        f"{mode.lower()}_cell",
        f"""One step of ``nn.{mode.partition("_")[0]}Cell`` as a function of its weights.

Args:
    input: [N, in].
    hx: {"(h, c)" if two else "h"}, [N, H].
    w_ih, w_hh: [gates * H, in] and [gates * H, H].
    b_ih, b_hh: [gates * H], or None.

Returns:
    {"(h, c) of the next step" if two else "h of the next step"}.

Example:
    >>> cell = nn.{mode.partition("_")[0]}Cell(2, 3)
    >>> h = gradlib.zeros(1, 3)
    >>> made = gradlib.{mode.lower()}_cell(gradlib.ones(1, 2), {"(h, h)" if two else "h"}, *cell.parameters())
    >>> tuple({"made[0]" if two else "made"}.shape)
    (1, 3)
""",
    )


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


lstm, gru, rnn_tanh, rnn_relu = map(_layers, ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"))
lstm_cell, gru_cell = _cell("LSTM"), _cell("GRU")
rnn_tanh_cell, rnn_relu_cell = _cell("RNN_TANH"), _cell("RNN_RELU")


def __getattr__(name: str) -> Any:
    """All that ``gradlib`` has: PyTorch finds its functions here, too."""
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module("gradlib"), name)
