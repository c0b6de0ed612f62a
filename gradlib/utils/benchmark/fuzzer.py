"""Fuzzer: tensors of random shapes, strides and sizes for measurements that shall not depend on one case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...operators import public as ops
from ...tape import dtypes
from ...tape.tensor import Tensor

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]


class ParameterAlias:
    """A parameter that has the value of another one: ``FuzzedParameter("x", distribution={ParameterAlias("y"): 1})``.

    Args:
        alias_to: the name of the other.
    """

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number that is drawn.

    Args:
        name: by which tensors and constraints know it.
        minval: the least value.
        maxval: the greatest value.
        distribution: "uniform", "loguniform", or value -> probability. Whole bounds give whole numbers.
        strict: whether it keeps its value where another one's alias would replace it.

    Raises:
        ValueError: another distribution, or no bounds for one that needs them.
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        if distribution not in ("uniform", "loguniform") and not isinstance(distribution, dict):
            raise ValueError(f"Unknown distribution: {distribution}")
        if not isinstance(distribution, dict) and (minval is None or maxval is None):
            raise ValueError(f"{name}: the distribution {distribution} needs minval and maxval")
        self.name, self.strict = name, strict
        self._low, self._high, self._distribution = minval, maxval, distribution

    def sample(self, state: np.random.RandomState) -> Any:
        """A value.

        Args:
            state: where random numbers come from.
        """
        if isinstance(self._distribution, dict):
            values, weights = (
                list(self._distribution),
                np.array([*self._distribution.values()], float),
            )
            return values[int(state.choice(len(values), p=weights / weights.sum()))]
        low, high = self._low, self._high
        assert low is not None and high is not None
        whole = isinstance(low, int) and isinstance(high, int)
        if self._distribution == "loguniform":
            value = math.exp(state.uniform(math.log(low), math.log(high)))
            return min(max(round(value), low), high) if whole else value
        return (
            int(state.randint(int(low), int(high) + 1))
            if whole
            else float(state.uniform(low, high))
        )


class FuzzedTensor:
    """A tensor whose shape and strides are drawn.

    Args:
        name: its name.
        size: numbers, and names of parameters.
        steps: the same for steps: the tensor is every so many-th element of a bigger one.
        probability_contiguous: how often its dimensions lie in memory in their order.
        min_elements: what has fewer is drawn again.
        max_elements: what has more is drawn again.
        max_allocation_bytes: what needs more, with what the steps leave out, is drawn again.
        dim_parameter: the name of the parameter that says how many of the sizes count.
        roll_parameter: not taken.
        dtype: of the elements.
        cuda: whether it is on CUDA.
        tensor_constructor: is called with size, dtype and the parameters as keywords.
    """

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: dtypes.dtype = dtypes.float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Tensor] | None = None,
    ) -> None:
        if roll_parameter is not None:
            raise NotImplementedError("FuzzedTensor: gradlib has no roll_parameter")
        self.name = name
        self._size, self._steps = size, steps or (1,) * len(size)
        self._contiguous = probability_contiguous
        self._bounds = (
            min_elements or 0,
            max_elements or math.inf,
            max_allocation_bytes or math.inf,
        )
        self._dim = dim_parameter
        self._dtype, self._cuda = dtype, cuda
        self._make = tensor_constructor or self.default_tensor_constructor

    @staticmethod
    def default_tensor_constructor(
        size: tuple[int, ...], dtype: dtypes.dtype, **kwargs: Any
    ) -> Tensor:
        """Random values: normal ones, or whole numbers below 127.

        Args:
            size: the shape.
            dtype: of the elements.
            kwargs: not used.
        """
        if dtype.is_floating_point or dtype.is_complex:
            return ops.randn(size, dtype=dtype)
        return ops.randint(1, 127, size, dtype=dtype)

    def _geometry(self, params: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        dim = len(self._size) if self._dim is None else params[self._dim]
        size = tuple([params[n] if isinstance(n, str) else n for n in self._size[:dim]])
        steps = tuple([params[n] if isinstance(n, str) else n for n in self._steps[:dim]])
        return size, steps

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether its size is within its bounds.

        Args:
            params: values by name.
        """
        size, steps = self._geometry(params)
        least, most, most_bytes = self._bounds
        allocated = math.prod([n * s for n, s in zip(size, steps)]) * self._dtype.itemsize
        return least <= math.prod(size) <= most and allocated <= most_bytes

    def make(
        self, params: dict[str, Any], state: np.random.RandomState
    ) -> tuple[Tensor, dict[str, Any]]:
        """The tensor, and what it is like.

        Args:
            params: values by name.
            state: where random numbers come from.
        """
        size, steps = self._geometry(params)
        order = list(range(len(size)))
        if len(size) > 1 and state.rand() > self._contiguous:
            while order == sorted(order) and max(size) > 1:
                order = [int(i) for i in state.permutation(len(size))]
        whole = self._make(tuple([size[i] * steps[i] for i in order]), self._dtype, **params)
        tensor = whole.cuda() if self._cuda else whole
        tensor = tensor.permute([order.index(i) for i in range(len(order))]) if order else tensor
        tensor = tensor[tuple([slice(None, None, s) for s in steps])]
        facts = {
            "numel": tensor.numel(),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }
        return tensor, facts


class Fuzzer:
    """Draws parameters and tensors.

    Args:
        parameters: of `FuzzedParameter`, in lists or not.
        tensors: of `FuzzedTensor`, in lists or not.
        constraints: functions of the parameters, by name; where one is false, they are drawn again.
        seed: of the random numbers.

    Raises:
        ValueError: two of one name.

    Example:
        >>> fuzzer = Fuzzer([FuzzedParameter("n", 1, 9, "uniform")], [FuzzedTensor("x", ("n", 2))], seed=0)
        >>> [tuple(tensors["x"].shape) == (params["n"], 2) for tensors, _, params in fuzzer.take(2)]
        [True, True]
    """

    def __init__(
        self,
        parameters: list[FuzzedParameter | list[FuzzedParameter]],
        tensors: list[FuzzedTensor | list[FuzzedTensor]],
        constraints: list[Callable[..., bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        self._seed = int(np.random.randint(0, 2**31)) if seed is None else seed
        self._parameters: list[FuzzedParameter] = _flat(parameters)
        self._tensors: list[FuzzedTensor] = _flat(tensors)
        self._constraints = constraints or []
        names = [p.name for p in self._parameters] + [t.name for t in self._tensors]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"Duplicate names in Fuzzer: {', '.join(twice)}")
        self._drawn = self._refused = 0

    def take(self, n: int) -> Iterator[tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]]:
        """Draw `n` times.

        Args:
            n: how often.

        Returns:
            An iterator of: tensors by name, what each is like, and the parameters.

        Raises:
            ValueError: a thousand draws in a row were not allowed.
        """
        state = np.random.RandomState(self._seed)
        for _ in range(n):
            params = self._draw(state)
            made = {t.name: t.make(params, state) for t in self._tensors}
            tensors = {name: tensor for name, (tensor, _) in made.items()}
            yield tensors, {name: facts for name, (_, facts) in made.items()}, params

    @property
    def rejection_rate(self) -> float:
        """The part of the draws that was not allowed.

        From 0 to 1; 0 before anything was drawn.
        """
        if not self._drawn:
            return 0.0
        return self._refused / self._drawn

    def _draw(self, state: np.random.RandomState) -> dict[str, Any]:
        for _ in range(1000):
            self._drawn += 1
            params = {p.name: p.sample(state) for p in self._parameters}
            for name, value in params.items():
                while isinstance(value, ParameterAlias):
                    value = params[value.alias_to]
                params[name] = value
            fits = all(t.satisfies_constraints(params) for t in self._tensors)
            if fits and all(c(**params) for c in self._constraints):
                return params
            self._refused += 1
        raise ValueError("Fuzzer: no parameters were found that meet the constraints")


def _flat(values: list[Any]) -> list[Any]:
    return [v for group in values for v in (group if isinstance(group, list | tuple) else [group])]
