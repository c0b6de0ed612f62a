"""Multi-head attention."""

from __future__ import annotations

from typing import Any

from ...operators import public as ops
from ...tape.tensor import Tensor
from .. import functional as F
from ..init import constant_, xavier_normal_, xavier_uniform_
from ..parameter import Parameter, add_parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """softmax(Q K^T / sqrt(d)) V in several heads, between linear projections.

    Args:
        embed_dim: size E of queries and results; divisible by num_heads.
        num_heads: heads, each of size d = E / num_heads.
        dropout: probability of dropping an attention weight, in training mode.
        bias: whether the projections have a bias.
        add_bias_kv: append a learned key and value to every sequence.
        add_zero_attn: append a zero key and value to every sequence.
        kdim: size of the keys; E by default.
        vdim: size of the values; E by default.
        batch_first: sequences are [N, L, E] instead of [L, N, E].
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: `embed_dim` or `num_heads` is not positive.
        AssertionError: `num_heads` does not divide `embed_dim`.

    Source: A. Vaswani et al., Attention is all you need, NIPS 2017.

    Example:
        >>> attend = nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = gradlib.randn(3, 5, 8)
        >>> out, weights = attend(x, x, x)
        >>> tuple(out.shape), tuple(weights.shape)
        ((3, 5, 8), (3, 5, 5))
    """

    in_proj_weight: Any
    in_proj_bias: Any
    q_proj_weight: Any
    k_proj_weight: Any
    v_proj_weight: Any
    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        same, apart = self._qkv_same_embed_dim, not self._qkv_same_embed_dim
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            add_parameter(self, f"{name}_proj_weight", (embed_dim, size), apart, **place)
        add_parameter(self, "in_proj_weight", (3 * embed_dim, embed_dim), same, **place)
        add_parameter(self, "in_proj_bias", 3 * embed_dim, bias, **place)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **place)
        if add_bias_kv:
            self.bias_k = Parameter(ops.empty((1, 1, embed_dim), **place))
            self.bias_v = Parameter(ops.empty((1, 1, embed_dim), **place))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            xavier_uniform_(self.in_proj_weight)
        else:
            xavier_uniform_(self.q_proj_weight)
            xavier_uniform_(self.k_proj_weight)
            xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            xavier_normal_(self.bias_v)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` to `key` and `value`.

        Args:
            query: [L, N, E], [N, L, E] with batch_first, or [L, E].
            key: [S, N, kdim], [N, S, kdim] with batch_first, or [S, kdim].
            value: [S, N, vdim], [N, S, vdim] with batch_first, or [S, vdim].
            key_padding_mask: [N, S] or [S]; True, or -inf, marks keys to ignore.
            need_weights: also return the attention weights.
            attn_mask: [L, S] or [N * num_heads, L, S]; True forbids, numbers are added.
            average_attn_weights: return the mean over heads, else every head's.
            is_causal: says that attn_mask is the causal mask; needs attn_mask.

        Returns:
            (output, weights): output in the shape of `query`; weights [N, L, S], or [N,
            num_heads, L, S], or None.
        """
        batched = query.dim() == 3
        key_padding_mask = F._canonical_mask(
            key_padding_mask,
            "key_padding_mask",
            F._none_or_dtype(attn_mask),
            "attn_mask",
            query.dtype,
        )
        attn_mask = F._canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        if self.batch_first and batched:
            same_key, same_value = key is query, value is key
            query = query.transpose(1, 0)
            key = query if same_key else key.transpose(1, 0)
            value = key if same_value else value.transpose(1, 0)
        separate: dict[str, Any] = {}
        if not self._qkv_same_embed_dim:
            separate = {
                "use_separate_proj_weight": True,
                "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight,
                "v_proj_weight": self.v_proj_weight,
            }
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            **separate,
        )
        if self.batch_first and batched:
            output = output.transpose(1, 0)
        return output, weights
