"""Transformer layers, stacks of them, and the whole encoder-decoder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ...operators import public as ops
from ...tape.tensor import Tensor
from .. import functional as F
from ..init import xavier_uniform_
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    """[sz, sz]: 0 where a position may look, -inf at later positions."""
    full = ops.full((sz, sz), float("-inf"), dtype=dtype, device=device)
    return ops.triu(full, diagonal=1)


def _detect_is_causal_mask(
    mask: Tensor | None, is_causal: bool | None = None, size: int | None = None
) -> bool:
    """Whether `mask` is the causal mask: as the caller says, else by looking at it."""
    if is_causal is not None:
        return is_causal
    if mask is None:
        return False
    n = size if size is not None else mask.size(-2)
    causal = _generate_square_subsequent_mask(n, device=mask.device, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _clones(layer: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(n)])


class Transformer(Module):
    """Encoder and decoder stacks with their final norms.

    Args:
        d_model: size E of every vector.
        nhead: attention heads.
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        dim_feedforward: size between the two linear layers.
        dropout: probability in all dropouts.
        activation: "relu", "gelu" or a function.
        custom_encoder: used instead of the encoder.
        custom_decoder: used instead of the decoder.
        layer_norm_eps: of the layer norms.
        batch_first: sequences are [N, T, E] instead of [T, N, E].
        norm_first: norms before attention and feedforward instead of after.
        bias: whether linear layers and norms have a bias.
        device: of the parameters.
        dtype: of the parameters.

    Source: A. Vaswani et al., Attention is all you need, NIPS 2017.

    Example:
        >>> net = nn.Transformer(8, 2, 1, 1, 16)
        >>> tuple(net(gradlib.rand(10, 3, 8), gradlib.rand(20, 3, 8)).shape)
        (20, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        settings = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*settings, **place)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            layer = TransformerDecoderLayer(*settings, **place)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            self.decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode `src`, then decode `tgt` with the result as memory.

        Args:
            src: [S, N, E], [N, S, E] with batch_first, or [S, E].
            tgt: [T, N, E], [N, T, E] with batch_first, or [T, E].
            src_mask: [S, S] or [N * nhead, S, S]; True forbids, numbers are added.
            tgt_mask: [T, T] or [N * nhead, T, T].
            memory_mask: [T, S].
            src_key_padding_mask: [N, S] or [S]; True marks what to ignore.
            tgt_key_padding_mask: [N, T] or [T].
            memory_key_padding_mask: [N, S] or [S].
            src_is_causal: says that src_mask is causal; None looks at it.
            tgt_is_causal: the same for tgt_mask.
            memory_is_causal: the same for memory_mask.

        Returns:
            Tensor in the shape of `tgt`.
        """
        batched = src.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if batched and src.size(batch_dim) != tgt.size(batch_dim):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask: no position may look at later ones.

        Args:
            sz: length of the sequence.
            device: where the mask goes.
            dtype: floating; the default dtype by default.

        Returns:
            Tensor [sz, sz]: 0 where row i may look at column j <= i, -inf elsewhere.

        Example:
            >>> nn.Transformer.generate_square_subsequent_mask(2).tolist()
            [[0.0, -inf], [0.0, 0.0]]
        """
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for param in self.parameters():
            if param.dim() > 1:
                xavier_uniform_(param)


class TransformerEncoder(Module):
    """Copies of one encoder layer, one after another.

    Args:
        encoder_layer: what is copied.
        num_layers: how often.
        norm: applied at the end.
        enable_nested_tensor: accepted; padded tensors are used throughout.
        mask_check: accepted.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> tuple(nn.TransformerEncoder(layer, 2)(gradlib.rand(3, 5, 8)).shape)
        (3, 5, 8)
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """src and masks: as in `TransformerEncoderLayer` -> the shape of `src`."""
        src_key_padding_mask = F._canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", F._none_or_dtype(mask), "mask", src.dtype
        )
        mask = F._canonical_mask(mask, "mask", None, "", src.dtype, False)
        causal = _detect_is_causal_mask(mask, is_causal)
        for layer in self.layers:
            src = layer(
                src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of one decoder layer, one after another.

    Args:
        decoder_layer: what is copied.
        num_layers: how often.
        norm: applied at the end.

    Example:
        >>> net = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2)
        >>> tuple(net(gradlib.rand(5, 3, 8), gradlib.rand(4, 3, 8)).shape)
        (5, 3, 8)
    """

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt, memory and masks: as in `TransformerDecoderLayer` -> the shape of `tgt`."""
        causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class _Layer(Module):
    """What encoder and decoder layers share: attention and a feedforward net, each as a residual block."""

    _attentions: tuple[str, ...] = ("self_attn",)
    activation: Any

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        how = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **place}
        for name in self._attentions:
            self.add_module(name, MultiheadAttention(d_model, nhead, **how))
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        blocks = range(1, len(self._attentions) + 2)
        for i in blocks:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            self.add_module(f"norm{i}", norm)
        for i in blocks:
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.activation = (
            _get_activation_fn(activation) if isinstance(activation, str) else activation
        )

    def _residual(self, i: int, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """`x` and what the `i`-th block makes of it, normalised before or after."""
        norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        if self.norm_first:
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    @staticmethod
    def _attend(
        layer: Module, x: Tensor, memory: Tensor, mask: Any, padding: Any, causal: bool
    ) -> Tensor:
        how = {"attn_mask": mask, "key_padding_mask": padding, "is_causal": causal}
        return layer(x, memory, memory, need_weights=False, **how)[0]

    def _feedforward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feedforward net, each with a residual connection and a norm.

    Args:
        d_model: size E of every vector.
        nhead: attention heads.
        dim_feedforward: size between the two linear layers.
        dropout: probability in all dropouts.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: of the layer norms.
        batch_first: sequences are [N, S, E] instead of [S, N, E].
        norm_first: norms before attention and feedforward instead of after.
        bias: whether linear layers and norms have a bias.
        device: of the parameters.
        dtype: of the parameters.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16)
        >>> tuple(layer(gradlib.rand(10, 3, 8)).shape)
        (10, 3, 8)
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Transform a sequence.

        Args:
            src: [S, N, E], [N, S, E] with batch_first, or [S, E].
            src_mask: [S, S] or [N * nhead, S, S]; True forbids, numbers are added.
            src_key_padding_mask: [N, S] or [S]; True marks what to ignore.
            is_causal: says that src_mask is the causal mask.
        """
        src_key_padding_mask = F._canonical_mask(
            src_key_padding_mask,
            "src_key_padding_mask",
            F._none_or_dtype(src_mask),
            "src_mask",
            src.dtype,
        )
        src_mask = F._canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)

        def attend(x: Tensor) -> Tensor:
            return self._attend(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal)

        return self._residual(2, self._residual(1, src, attend), self._feedforward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feedforward net.

    Arguments as in `TransformerEncoderLayer`.

    Example:
        >>> layer = nn.TransformerDecoderLayer(8, 2, 16)
        >>> tuple(layer(gradlib.rand(20, 3, 8), gradlib.rand(10, 3, 8)).shape)
        (20, 3, 8)
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Transform a sequence, looking at a memory.

        Args:
            tgt: [T, N, E], [N, T, E] with batch_first, or [T, E].
            memory: [S, N, E], [N, S, E] with batch_first, or [S, E].
            tgt_mask: [T, T] or [N * nhead, T, T]; True forbids, numbers are added.
            memory_mask: [T, S].
            tgt_key_padding_mask: [N, T] or [T]; True marks what to ignore.
            memory_key_padding_mask: [N, S] or [S].
            tgt_is_causal: says that tgt_mask is the causal mask.
            memory_is_causal: the same for memory_mask.
        """

        def attend(x: Tensor) -> Tensor:
            return self._attend(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def remember(x: Tensor) -> Tensor:
            padding = memory_key_padding_mask
            layer = self.multihead_attn
            return self._attend(layer, x, memory, memory_mask, padding, memory_is_causal)

        tgt = self._residual(2, self._residual(1, tgt, attend), remember)
        return self._residual(3, tgt, self._feedforward)
