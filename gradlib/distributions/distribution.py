"""Distribution: what all probability distributions have in common."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..op.vmap import all_entries
from ..tape.tensor import Size, Tensor
from . import constraints
from .utils import _all_true, _as_size, broadcast_all, lazy_property

__all__ = ["Distribution"]

Shape = Sequence[int]
ONE_DRAW = Size()  # the shape of a single draw, or of no batch


class Distribution:
    """A probability distribution, or a batch of independent ones.

    The parameters of a distribution broadcast to `batch_shape` (and some dimensions of their own after it); one draw
    of each member of the batch has `event_shape`. So ``sample(s)`` has the shape ``s + batch_shape + event_shape``,
    and ``log_prob`` of that ``s + batch_shape``.

    A subclass of one's own calls ``super().__init__(batch_shape, event_shape)`` once its parameters are attributes, and
    has ``arg_constraints``, ``support``, ``rsample`` or ``sample``, and ``log_prob``.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one draw.
        validate_args: whether parameters and arguments are checked; by default as `set_default_validate_args` says.

    Raises:
        ValueError: a parameter does not satisfy its constraint.

    Example:
        >>> normal = gradlib.distributions.Normal(gradlib.zeros(3), 1.0)
        >>> normal.batch_shape, normal.event_shape, normal.sample((2,)).shape
        (torch.Size([3]), torch.Size([]), torch.Size([2, 3]))
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    # Names of the parameters of a class whose `expand` is the one below: each begins with the batch's dimensions.
    _parameters: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions made from now on check their parameters and arguments.

        Checks cost time, and on CUDA wait for the device. They are made by default, unless Python runs with ``-O``.

        Args:
            value: True or False.

        Raises:
            ValueError: another value.

        Example:
            >>> gradlib.distributions.Distribution.set_default_validate_args(True)
        """
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Shape = ONE_DRAW,
        event_shape: Shape = ONE_DRAW,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = _as_size(batch_shape)
        self._event_shape = _as_size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        """ValueError for a parameter outside of its constraint."""
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        for name, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue  # it depends on other parameters
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue  # computed from another parameter, which is checked
            value = getattr(self, name)
            if not _all_true(constraint.check(value)):
                found = all_entries(value)
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{found}"
                )

    def _set_scalars(self, validate_args: bool | None, **parameters: Any) -> None:
        """The rest of ``__init__`` where one element of each parameter makes one member of the batch."""
        tensors = broadcast_all(*parameters.values())
        for name, tensor in zip(parameters, tensors, strict=True):
            setattr(self, name, tensor)
        Distribution.__init__(self, tensors[0].shape, validate_args=validate_args)

    # -- shapes ------------------------------------------------------------------------------------------------------

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """The same distribution with a larger batch; its parameters are expanded, not copied.

        Args:
            batch_shape: a shape that the present one broadcasts to.
            _instance: for subclasses: a new object of theirs, to be filled.

        Returns:
            A distribution of the same class.

        Raises:
            RuntimeError: the batch does not broadcast to that shape.
            NotImplementedError: a class of one's own without this method, or with an ``__init__`` of its own.

        Example:
            >>> gradlib.distributions.Normal(0.0, 1.0).expand((2, 3)).batch_shape
            torch.Size([2, 3])
        """
        if not self._parameters:
            raise NotImplementedError
        new = self._get_checked_instance(self._library_class(), _instance)
        batch_shape = _as_size(batch_shape)
        for name in self._parameters:
            if name in self.__dict__:
                value = self.__dict__[name]
                setattr(
                    new, name, value.expand(batch_shape + value.shape[len(self._batch_shape) :])
                )
        return self._finish_expanded(new, batch_shape)

    def _finish_expanded(self, new: Any, batch_shape: Size) -> Any:
        """Give a new object whose parameters are set its shapes; what was checked once is not checked again."""
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _library_class(self) -> type:
        """The class of this package that this one is, or is derived from."""
        return next(c for c in type(self).__mro__ if c.__module__.startswith(f"{__package__}."))

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A new object for `expand`, unless a subclass of `cls` has parameters that only it knows to expand."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch: how many distributions this is.

        Example:
            >>> gradlib.distributions.Normal(gradlib.zeros(3), 1.0).batch_shape
            torch.Size([3])
        """
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw from one member of the batch.

        Example:
            >>> gradlib.distributions.Dirichlet(gradlib.ones(3)).event_shape
            torch.Size([3])
        """
        return self._event_shape

    def _extended_shape(self, sample_shape: Shape = ONE_DRAW) -> Size:
        """The shape of `sample_shape` draws."""
        return _as_size(sample_shape) + self._batch_shape + self._event_shape

    # -- what is known about it ----------------------------------------------------------------------------------------

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint of each parameter, by the name that ``__init__`` has for it.

        Raises:
            NotImplementedError: a class of one's own that does not say.

        Example:
            >>> gradlib.distributions.Normal.arg_constraints
            {'loc': Real(), 'scale': GreaterThan(lower_bound=0.0)}
        """
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint that every draw satisfies.

        Raises:
            NotImplementedError: a class of one's own that does not say.

        Example:
            >>> gradlib.distributions.Uniform(0.0, 2.0).support
            Interval(lower_bound=0.0, upper_bound=2.0)
        """
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The expectation of a draw, [*batch_shape, *event_shape].

        Raises:
            NotImplementedError: there is no formula for it.

        Example:
            >>> gradlib.distributions.Exponential(4.0).mean
            tensor(0.2500)
        """
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Where the density, or the probability, is greatest, [*batch_shape, *event_shape]; nan where nowhere.

        Raises:
            NotImplementedError: there is no formula for it.

        Example:
            >>> gradlib.distributions.Gamma(3.0, 2.0).mode
            tensor(1.)
        """
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance of each element of a draw, [*batch_shape, *event_shape].

        Raises:
            NotImplementedError: there is no formula for it.

        Example:
            >>> gradlib.distributions.Uniform(0.0, 6.0).variance
            tensor(3.)
        """
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of each element of a draw: the square root of `variance`.

        Raises:
            NotImplementedError: there is no formula for it.

        Example:
            >>> gradlib.distributions.Poisson(4.0).stddev
            tensor(2.)
        """
        return self.variance.sqrt()

    # -- drawing -------------------------------------------------------------------------------------------------------

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        """Draw, outside of the graph.

        Args:
            sample_shape: how many draws, as a shape.

        Returns:
            A tensor [*sample_shape, *batch_shape, *event_shape] that does not require grad.

        Raises:
            NotImplementedError: a class of one's own that cannot.

        Example:
            >>> gradlib.distributions.Bernoulli(gradlib.ones(2)).sample()
            tensor([1., 1.])
        """
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        """Draw as a differentiable function of the parameters and of noise that does not depend on them.

        The gradient of a function of the draw is then an unbiased estimate of that of its expectation. `has_rsample`
        says whether a class has it.

        Args:
            sample_shape: how many draws, as a shape.

        Returns:
            A tensor [*sample_shape, *batch_shape, *event_shape].

        Raises:
            NotImplementedError: draws are no such function, or none is known.

        Example:
            >>> scale = gradlib.tensor(2.0, requires_grad=True)
            >>> draw = gradlib.distributions.Normal(0.0, scale).rsample()
            >>> draw.backward()
            >>> bool(scale.grad * 2 == draw)
            True
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``, as it was called once.

        Args:
            n: how many draws.

        Returns:
            A tensor [n, *batch_shape, *event_shape].

        Example:
            >>> gradlib.distributions.Normal(0.0, 1.0).sample_n(3).shape
            torch.Size([3])
        """
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(Size((n,)))

    # -- of a value --------------------------------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at `value`.

        Args:
            value: a tensor that broadcasts with ``batch_shape + event_shape``.

        Returns:
            A tensor of the shape that `value` and the batch broadcast to, without the dimensions of the event.

        Raises:
            ValueError: `value` is no tensor, has the wrong shape, or is outside of the support.
            NotImplementedError: a class of one's own that cannot.

        Example:
            >>> gradlib.distributions.Exponential(2.0).log_prob(gradlib.tensor(0.0))
            tensor(0.6931)
        """
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a draw that is at most `value`: the cumulative distribution function.

        Args:
            value: a tensor that broadcasts with the batch.

        Returns:
            A tensor of the shape that both broadcast to.

        Raises:
            ValueError: `value` is no tensor, has the wrong shape, or is outside of the support.
            NotImplementedError: there is no formula for it.

        Example:
            >>> gradlib.distributions.Uniform(0.0, 4.0).cdf(gradlib.tensor(1.0))
            tensor(0.2500)
        """
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which a draw is with the probability `value`: the inverse of `cdf`.

        Args:
            value: probabilities, a tensor that broadcasts with the batch.

        Returns:
            A tensor of the shape that both broadcast to.

        Raises:
            NotImplementedError: there is no formula for it.

        Example:
            >>> gradlib.distributions.Uniform(0.0, 4.0).icdf(gradlib.tensor(0.5))
            tensor(2.)
        """
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values that a discrete distribution can take; `has_enumerate_support` says whether a class has it.

        Args:
            expand: whether they are repeated for each member of the batch.

        Returns:
            A tensor [number of values, *batch_shape, *event_shape]; with ones for the batch if not `expand`.

        Raises:
            NotImplementedError: they cannot be listed.

        Example:
            >>> gradlib.distributions.Bernoulli(0.5).enumerate_support()
            tensor([0., 1.])
        """
        raise NotImplementedError

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """The values of a scalar distribution, [n], as `enumerate_support` gives them."""
        values = values.reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def entropy(self) -> Tensor:
        """The expectation of ``-log_prob``, in nats.

        Returns:
            A tensor of the shape of the batch.

        Raises:
            NotImplementedError: there is no formula for it.

        Example:
            >>> gradlib.distributions.Bernoulli(0.5).entropy()
            tensor(0.6931)
        """
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """``exp(entropy())``: the number of equally probable values that are as uncertain.

        Returns:
            A tensor of the shape of the batch.

        Raises:
            NotImplementedError: there is no formula for the entropy.

        Example:
            >>> gradlib.distributions.Uniform(0.0, 4.0).perplexity()
            tensor(4.)
        """
        return self.entropy().exp()

    def _validate_sample(self, value: Tensor) -> None:
        """ValueError for a value that is no possible draw."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        own = len(value.shape) - len(self._event_shape)
        if value.shape[own:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        wanted = self._batch_shape + self._event_shape
        for given, there in zip(reversed(value.shape), reversed(wanted), strict=False):
            if 1 not in (given, there) and given != there:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {wanted}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not _all_true(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{all_entries(value)}"
            )

    def __repr__(self) -> str:
        shown = [
            (n, all_entries(self.__dict__[n])) for n in self.arg_constraints if n in self.__dict__
        ]
        texts = [f"{n}: {v if v.numel() == 1 else v.shape}" for n, v in shown]
        return f"{type(self).__name__}({', '.join(texts)})"
