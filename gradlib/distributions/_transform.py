"""Transform, and the transforms that are made of others: inverse, composed, independent."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Sequence
from typing import Any

from ..operators import public as ops
from ..tape.tensor import Tensor
from . import constraints
from .utils import _sum_rightmost, lazy_property

__all__ = [
    "ComposeTransform",
    "IndependentTransform",
    "Transform",
    "identity_transform",
]

Shape = Sequence[int]


class Transform:
    """A differentiable map between tensors, with the logarithm of the determinant of its Jacobian.

    A subclass has the constraints ``domain`` and ``codomain``, the methods ``_call``, ``_inverse`` and, if it is
    ``bijective``, ``log_abs_det_jacobian``; ``sign`` if it maps numbers monotonically.

    Args:
        cache_size: 1 keeps the last argument and result, so that ``t.inv(t(x))`` is `x` itself: for inverses that
            are costly or imprecise. 0 keeps nothing.

    Raises:
        ValueError: another `cache_size`.

    Example:
        >>> exp = gradlib.distributions.ExpTransform()
        >>> x = gradlib.tensor([0.0, 1.0])
        >>> exp(x), exp.log_abs_det_jacobian(x, exp(x))
        (tensor([1.0000, 2.7183]), tensor([0., 1.]))
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: weakref.ref[Transform] | None = None
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}  # weak references cannot be pickled

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions are mapped together: 0 if each number is by itself.

        Raises:
            ValueError: arguments and results have different numbers of them.

        Example:
            >>> gradlib.distributions.ExpTransform().event_dim
            0
        """
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Any:
        """The inverse transform, whose inverse is this one.

        Example:
            >>> gradlib.distributions.ExpTransform().inv(gradlib.ones(1))
            tensor([0.])
        """
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 if the map increases, -1 if it decreases.

        Raises:
            NotImplementedError: neither, or not a map of numbers.

        Example:
            >>> gradlib.distributions.AffineTransform(0.0, -2.0).sign
            -1
        """
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """This transform with another size of the cache: itself if it has that.

        Args:
            cache_size: 0 or 1.

        Raises:
            NotImplementedError: a class with an ``__init__`` of its own that does not say how.

        Example:
            >>> exp = gradlib.distributions.ExpTransform().with_cache()
            >>> x = gradlib.ones(1)
            >>> exp.inv(exp(x)) is x
            True
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, x: Tensor) -> Tensor:
        """The image of `x`."""
        if self._cache_size == 0:
            return self._call(x)
        x_old, y_old = self._cached_x_y
        if x is x_old:
            return y_old
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        """What is mapped to `y`."""
        if self._cache_size == 0:
            return self._inverse(y)
        x_old, y_old = self._cached_x_y
        if y is y_old:
            return x_old
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        """The image of `x`, computed."""
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        """What is mapped to `y`, computed."""
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute value of the determinant of the Jacobian, log |dy/dx|.

        Args:
            x: the argument.
            y: its image.

        Returns:
            A tensor of the shape of `x` without the dimensions that are mapped together.

        Raises:
            NotImplementedError: the transform is not bijective, or does not say.

        Example:
            >>> x = gradlib.tensor([0.0, 1.0])
            >>> gradlib.distributions.ExpTransform().log_abs_det_jacobian(x, x.exp())
            tensor([0., 1.])
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of the image of a tensor of the shape `shape`.

        Args:
            shape: of an argument.

        Raises:
            ValueError: no argument has that shape.

        Example:
            >>> gradlib.distributions.StickBreakingTransform().forward_shape((5, 2))
            (5, 3)
        """
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of what is mapped to a tensor of the shape `shape`.

        Args:
            shape: of an image.

        Raises:
            ValueError: no image has that shape.

        Example:
            >>> gradlib.distributions.StickBreakingTransform().inverse_shape((5, 3))
            (5, 2)
        """
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform, whose cache it shares.

    Args:
        transform: the other one.
    """

    _inv: Transform  # type: ignore[assignment]

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Shape:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after the other.

    Args:
        parts: the transforms, the first one first; none: the identity.
        cache_size: 0 or 1, for all of them.

    Example:
        >>> d = gradlib.distributions
        >>> both = d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.ExpTransform()])
        >>> both(gradlib.tensor(-0.5)), both.inv(gradlib.tensor(1.0))
        (tensor(1.), tensor(-0.5000))
    """

    def __init__(self, parts: list[Any], cache_size: int = 0) -> None:
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else parts
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def _grown(self, constraint: Any, dims: int) -> Any:
        """A constraint whose points have `dims` dimensions more, since later transforms map more of them together."""
        return constraints.independent(constraint, dims) if dims else constraint

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        dims = self.parts[
            -1
        ].codomain.event_dim  # of the widest argument, seen from the first transform
        for part in reversed(self.parts):
            dims = max(
                dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim
            )
        return self._grown(self.parts[0].domain, dims - self.parts[0].domain.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(
                dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim
            )
        return self._grown(self.parts[-1].codomain, dims - self.parts[-1].codomain.event_dim)

    @lazy_property
    def bijective(self) -> bool:
        return all(p.bijective for p in self.parts)

    @lazy_property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, [p.sign for p in self.parts], 1)

    @property
    def inv(self) -> Any:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return ops.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        # each term is summed over the dimensions that belong to a point of the whole and not of that part
        terms, dims = [], self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:], strict=False):
            jacobian = part.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(jacobian, dims - part.domain.event_dim))
            dims += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Shape) -> Shape:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(p) for p in self.parts)
        return f"{type(self).__name__}(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform that counts the last batch dimensions of its argument among those of one point.

    The map is the same; ``log_abs_det_jacobian`` is summed over these dimensions.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: how many dimensions.
        cache_size: 0 or 1.

    Example:
        >>> d = gradlib.distributions
        >>> x = gradlib.tensor([1.0, 2.0])
        >>> d.IndependentTransform(d.ExpTransform(), 1).log_abs_det_jacobian(x, x.exp())
        tensor(3.)
    """

    def __init__(
        self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether the transform has an inverse.

        Example:
            >>> d = gradlib.distributions
            >>> d.IndependentTransform(d.ExpTransform(), 1).bijective
            True
        """
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        _need_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        _need_dims(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        result = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(result, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Shape) -> Shape:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self.base_transform.inverse_shape(shape)


def _need_dims(shape: Shape, dims: int) -> None:
    """ValueError for a shape of fewer than `dims` dimensions."""
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")
