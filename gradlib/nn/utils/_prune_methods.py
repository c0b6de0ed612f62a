"""What ways of pruning are made of; `prune` says how they work together."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from ...operators import public as ops
from ...tape.layout import contiguous_format
from ...tape.tensor import Tensor
from ..modules.module import Module


class BasePruningMethod(ABC):
    """What a way of pruning is made of; subclasses give `compute_mask` and `PRUNING_TYPE`.

    PRUNING_TYPE says which entries a method chooses from where something is pruned already: "unstructured" from the
    entries that are left, "structured" from the slices along its `dim` of which anything is left, "global" from all.

    Example:
        >>> class EveryOther(nn.utils.prune.BasePruningMethod):
        ...     PRUNING_TYPE = "unstructured"
        ...     def compute_mask(self, t, default_mask):
        ...         mask = default_mask.clone()
        ...         mask.view(-1)[::2] = 0
        ...         return mask
        >>> _ = EveryOther.apply(model, "bias")
        >>> model.bias_mask
        tensor([0., 1.])
    """

    PRUNING_TYPE: str
    _tensor_name: str  # of the parameter, once there is one

    def __call__(self, module: Module, inputs: Any) -> None:
        """The forward pre-hook: the parameter as its mask leaves it."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The new mask, of the shape of `t`; every method gives its own.

        Args:
            t: how important each entry is; by default the entries themselves.
            default_mask: the mask so far. What it has pruned stays pruned.

        Returns:
            Tensor of zeros and ones.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """The product of mask and original parameter of a module that this method prunes.

        Args:
            module: owns both.
        """
        name = self._tensor_name
        original = getattr(module, name + "_orig")
        return getattr(module, name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune the parameter `name` of `module`; returns the method that is now its hook.

        Args:
            module: owns the parameter.
            name: of the parameter.
            args: what the class is made with.
            importance_scores: of the shape of the parameter, to be ranked instead of it.
            kwargs: what the class is made with.

        Raises:
            AssertionError: scores of another shape. What the method itself refuses leaves the module as it was.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        hooks = module._forward_pre_hooks
        before: dict[Any, Any] = {k: h for k, h in hooks.items() if _prunes(h, name)}
        if len(before) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
                "Use a PruningContainer."
            )
        current = getattr(module, name)
        scores = current if importance_scores is None else importance_scores
        _check_scores(scores, current, lambda: f"parameter {name} of {module}")
        if not before:
            mask = method.compute_mask(scores, ops.ones_like(current))
            module.register_parameter(name + "_orig", current)
            del module._parameters[name]
        else:
            ((key, old),) = before.items()
            chain = old if isinstance(old, PruningContainer) else PruningContainer(old)
            mask = getattr(module, name + "_mask").detach()
            mask = mask.clone(memory_format=contiguous_format)
            mask = chain._narrowed(method, scores, mask)
            chain.add_pruning_method(method)
            method = chain
            del hooks[key]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """`t` multiplied by the mask that the method computes for it; no module is needed.

        Example:
            >>> nn.utils.prune.L1Unstructured(amount=2).prune(gradlib.tensor([3.0, -1.0, 0.5])).tolist()
            [3.0, -0.0, 0.0]
        """
        scores = t if importance_scores is None else importance_scores
        _check_scores(scores, t, lambda: "tensor t")
        mask = ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the pruned values the parameter again; the hook itself is left to `prune.remove`.

        Args:
            module: owns the parameter.
        """
        name, pruned = self._tensor_name, self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        assert original is not None
        original.data = pruned.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Pruning methods of one parameter, in the order in which they were applied.

    Args:
        args: methods.

    Example:
        >>> for _ in range(2):
        ...     _ = nn.utils.prune.l1_unstructured(model, "weight", amount=1)
        >>> [hook] = model._forward_pre_hooks.values()
        >>> type(hook).__name__, len(hook)
        ('PruningContainer', 2)
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Append a method.

        Raises:
            TypeError: it is none.
            ValueError: it is for another parameter.
        """
        if method is not None:
            if not isinstance(method, BasePruningMethod):
                raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
            if method._tensor_name != self._tensor_name:
                raise ValueError(
                    "Can only add pruning methods acting on the parameter named "
                    f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
                )
        self._pruning_methods = (*self._pruning_methods, method)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask`, narrowed by the method that was added last."""
        return self._narrowed(self._pruning_methods[-1], t, default_mask)

    @staticmethod
    def _narrowed(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Tensor:
        """`mask` with what `method` prunes of the entries that it chooses from."""
        where = _choice(method, t, mask)
        out = mask.to(dtype=t.dtype)
        out[where] = method.compute_mask(t[where], default_mask=mask[where]).to(dtype=out.dtype)
        return out


def _choice(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Any:
    """The index of the entries from which a method chooses what to prune."""
    kind = method.PRUNING_TYPE
    if kind == "unstructured":
        return mask == 1
    if kind == "global":
        return (slice(None),) * t.dim()
    if kind != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
        )
    n, dim = t.dim(), method.dim  # type: ignore[attr-defined]
    dim = dim + n if dim < 0 else dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {n}")
    alive = mask.sum(dim=[d for d in range(n) if d != dim]) != 0
    return (*[slice(None)] * dim, alive)


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the parameter a product with a mask of ones.

    Example:
        >>> nn.utils.prune.Identity().prune(gradlib.tensor([3.0, -1.0])).tolist()
        [3.0, -1.0]
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far."""
        return default_mask


class _ByAmount(BasePruningMethod):
    """A method that prunes a given number of entries or slices, or a given fraction of them."""

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def _count(self, size: int) -> int:
        """How many of `size` to prune; ValueError for more than there are."""
        if not isinstance(self.amount, numbers.Integral):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to prune={size}"
            )
        return int(self.amount)


class _Unstructured(_ByAmount):
    """Prunes the entries that rank lowest."""

    PRUNING_TYPE = "unstructured"

    def rank(self, t: Tensor) -> Tensor:
        """What the entries are ranked by; the lowest are pruned.

        Args:
            t: the entries, or the scores that stand for them.

        Returns:
            Tensor in the shape of `t`.
        """
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far without the entries that rank lowest."""
        count = self._count(t.nelement())
        mask = default_mask.clone(memory_format=contiguous_format)
        if count:
            lowest = self.rank(t).reshape(-1).topk(count, largest=False).indices
            mask.view(-1)[lowest] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes entries at random.

    Args:
        amount: how many (int), or which fraction (float).

    Example:
        >>> int((nn.utils.prune.RandomUnstructured(2).prune(gradlib.ones(5)) == 0).sum())
        2
    """

    def rank(self, t: Tensor) -> Tensor:
        """Random numbers."""
        return ops.rand_like(t)


class L1Unstructured(_Unstructured):
    """Prunes the entries with the smallest absolute values.

    Args:
        amount: how many (int), or which fraction (float).

    Example:
        >>> nn.utils.prune.L1Unstructured(1).prune(gradlib.tensor([3.0, -1.0, 2.0])).tolist()
        [3.0, -0.0, 2.0]
    """

    def rank(self, t: Tensor) -> Tensor:
        """Absolute values."""
        return t.abs()

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """Prune the smallest entries of the parameter `name`; returns the method that is now its hook.

        Args:
            module: owns the parameter.
            name: of the parameter.
            amount: how many (int), or which fraction (float).
            importance_scores: of the shape of the parameter, to be ranked instead of it.
        """
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(_ByAmount):
    """Prunes the slices along a dimension that rank lowest."""

    PRUNING_TYPE = "structured"
    dim: int

    def rank(self, t: Tensor) -> Tensor:
        """What the slices along `dim` are ranked by; the lowest are pruned.

        Args:
            t: the entries, or the scores that stand for them.

        Returns:
            Tensor [t.shape[dim]].
        """
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far without the slices that rank lowest."""
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = self._count(size)
        if not count:
            return default_mask
        best = self.rank(t).topk(size - count).indices
        mask = ops.zeros_like(t)
        mask.index_fill_(self.dim, best, 1)
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prunes slices along `dim` at random.

    Args:
        amount: how many (int), or which fraction (float).
        dim: the dimension of which slices are pruned.

    Example:
        >>> pruned = nn.utils.prune.RandomStructured(1, dim=0).prune(gradlib.ones(3, 2))
        >>> sorted(pruned.sum(1).tolist())
        [0.0, 2.0, 2.0]
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def rank(self, t: Tensor) -> Tensor:
        """Random numbers."""
        return ops.rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prunes the slices along `dim` with the smallest norms.

    Args:
        amount: how many (int), or which fraction (float).
        n: which norm, as of ``gradlib.norm``.
        dim: the dimension of which slices are pruned.

    Example:
        >>> x = gradlib.tensor([[1.0, 1.0], [2.0, 2.0]])
        >>> nn.utils.prune.LnStructured(1, n=2, dim=0).prune(x).tolist()
        [[0.0, 0.0], [2.0, 2.0]]
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def rank(self, t: Tensor) -> Tensor:
        """The norm of each slice."""
        dims = list(range(t.dim()))
        del dims[self.dim]
        return ops.norm(t, p=self.n, dim=dims)

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: float,
        n: Any,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        """Prune the slices with the smallest norms; returns the method that is now the parameter's hook.

        Args:
            module: owns the parameter.
            name: of the parameter.
            amount: how many slices (int), or which fraction of them (float).
            n: which norm, as of ``gradlib.norm``.
            dim: the dimension of which slices are pruned.
            importance_scores: of the shape of the parameter, to be ranked instead of it.
        """
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0.

    Args:
        mask: of the shape of the parameter.

    Raises:
        AssertionError: at its use, another shape.

    Example:
        >>> nn.utils.prune.CustomFromMask(gradlib.tensor([1.0, 0.0])).prune(gradlib.ones(2)).tolist()
        [1.0, 0.0]
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def _prunes(hook: Any, name: str) -> bool:
    return isinstance(hook, BasePruningMethod) and hook._tensor_name == name


def _check_scores(scores: Tensor, t: Tensor, of: Callable[[], str]) -> None:
    if scores.shape != t.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {of()}, got {scores.shape} vs {t.shape}"
        )


def _check_amount(amount: Any) -> None:
    """TypeError for what is no number, ValueError for a negative number or a fraction above 1."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if float(amount) < 0 or (not isinstance(amount, numbers.Integral) and float(amount) > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )
