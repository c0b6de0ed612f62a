"""Embeddings: rows of a table chosen by indices."""

from __future__ import annotations

from typing import Any

from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ...tape.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module, changed

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """The weight that both embeddings share; starts in N(0, 1), the padding row at 0."""

    weight: Tensor
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def _make_table(self, weight: Tensor | None, freeze: bool, device: Any, dtype: Any) -> None:
        if self.padding_idx is not None:
            if self.padding_idx > 0:
                assert self.padding_idx < self.num_embeddings, (
                    "Padding_idx must be within num_embeddings"
                )
            elif self.padding_idx < 0:
                assert self.padding_idx >= -self.num_embeddings, (
                    "Padding_idx must be within num_embeddings"
                )
                self.padding_idx = self.num_embeddings + self.padding_idx
        if weight is None:
            shape = (self.num_embeddings, self.embedding_dim)
            empty = ops.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(empty, requires_grad=not freeze)
            self.reset_parameters()
        else:
            assert list(weight.shape) == [self.num_embeddings, self.embedding_dim], (
                "Shape of weight does not match num_embeddings and embedding_dim"
            )
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw the table anew from N(0, 1), in place.

        The row `padding_idx` becomes 0.
        """
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """A table with one row per index.

    It starts in N(0, 1), the padding row at 0.

    Args:
        num_embeddings: rows.
        embedding_dim: columns.
        padding_idx: a row that starts at zero and gets no gradient; negative ones count from the end.
        max_norm: rows that are used are first scaled down to this norm, in place.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide a row's gradient by how often it occurs in the batch.
        sparse: accepted; gradients are dense.
        _weight: Tensor [num_embeddings, embedding_dim], the table to use.
        _freeze: whether the table gets no gradient.
        device: of the table.
        dtype: of the table.

    Shape:
        int64 or int32 [...] -> [..., embedding_dim].

    Attributes:
        weight: Parameter [num_embeddings, embedding_dim].

    Raises:
        AssertionError: `padding_idx` is no row, or `_weight` has another shape.
        IndexError: at the call, if an index is no row.
        RuntimeError: at the call, if the indices are of another dtype.

    Example:
        >>> tuple(nn.Embedding(10, 3)(gradlib.tensor([[1, 2], [4, 9]])).shape)
        (2, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_table(_weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """input: integers [...] -> [..., embedding_dim]."""
        weight = self._parameters.get("weight")
        if weight is None:  # replaced by a parametrisation
            weight = self.weight
        return F.embedding(
            input,
            weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2}
        rest = changed(self, **usual, scale_grad_by_freq=False)
        sparse = "" if self.sparse is False else ", sparse=True"
        return f"{self.num_embeddings}, {self.embedding_dim}{rest}{sparse}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An Embedding on a given table.

        Args:
            embeddings: Tensor [num_embeddings, embedding_dim], the table; shared, not copied.
            freeze: whether it gets no gradient.
            padding_idx: see `Embedding`, as all that follow.
            max_norm: see `Embedding`.
            norm_type: see `Embedding`.
            scale_grad_by_freq: see `Embedding`.
            sparse: see `Embedding`.

        Raises:
            AssertionError: the table has not two dimensions.

        Example:
            >>> table = nn.Embedding.from_pretrained(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]))
            >>> table(gradlib.tensor(1)).tolist(), table.weight.requires_grad
            ([3.0, 4.0], False)
        """
        assert embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional"
        rows, cols = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=cols,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of rows, without the rows in between.

    Args:
        num_embeddings: rows.
        embedding_dim: columns.
        max_norm: rows that are used are first scaled down to this norm, in place.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide a row's gradient by how often it occurs in the batch.
        mode: "sum", "mean" or "max".
        sparse: accepted; gradients are dense.
        _weight: Tensor [num_embeddings, embedding_dim], the table to use.
        include_last_offset: the last offset is the end of the last bag.
        padding_idx: a row that no bag counts and that gets no gradient.
        device: of the table.
        dtype: of the table.

    Shape:
        input: integers [bags, length], or [total] with offsets -> [bags, embedding_dim].
        offsets: integers [bags], where each bag begins; the first is 0.
        per_sample_weights: in the shape of the input: factors of the rows, with mode "sum" only.

    Attributes:
        weight: Parameter [num_embeddings, embedding_dim].

    Raises:
        ValueError: at the call, if offsets are missing, or given with a two-dimensional input.
        NotImplementedError: at the call, weights with another mode.

    Example:
        >>> bag = nn.EmbeddingBag(10, 3, mode="sum")
        >>> tuple(bag(gradlib.tensor([1, 2, 4, 5]), gradlib.tensor([0, 3])).shape)
        (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = padding_idx
        self._make_table(_weight, False, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """input: integers [bags, length], or [total] with offsets [bags] -> [bags, dim]."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        rest = changed(self, max_norm=None, norm_type=2, scale_grad_by_freq=False)
        rest += f", mode={self.mode!r}" + changed(self, padding_idx=None)
        return f"{self.num_embeddings}, {self.embedding_dim}{rest}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """An EmbeddingBag on a given table.

        Args:
            embeddings: Tensor [num_embeddings, embedding_dim], the table; shared, not copied.
            freeze: whether it gets no gradient.
            max_norm: see `EmbeddingBag`, as all that follow.
            norm_type: see `EmbeddingBag`.
            scale_grad_by_freq: see `EmbeddingBag`.
            mode: see `EmbeddingBag`.
            sparse: see `EmbeddingBag`.
            include_last_offset: see `EmbeddingBag`.
            padding_idx: see `EmbeddingBag`.

        Raises:
            AssertionError: the table has not two dimensions.

        Example:
            >>> bag = nn.EmbeddingBag.from_pretrained(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]))
            >>> bag(gradlib.tensor([[0, 1]])).tolist()
            [[2.0, 3.0]]
        """
        assert embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional"
        rows, cols = embeddings.shape
        bag = cls(
            num_embeddings=rows,
            embedding_dim=cols,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
