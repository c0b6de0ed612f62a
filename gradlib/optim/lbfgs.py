"""L-BFGS with an optional line search."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

from ..autograd.grad_mode import enable_grad, no_grad
from ..operators import public as ops
from ..tape.tensor import Tensor
from ._checks import check_lr
from .optimizer import Optimizer

__all__ = ["LBFGS"]


Trial = tuple[float, float, Tensor, float]  # step length, loss, gradient, slope


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last differences of parameters and gradients.

    One parameter group only. `step` needs a closure: it evaluates the model up to max_eval
    times.

    Args:
        params: tensors.
        lr: step length, or first trial of the line search.
        max_iter: iterations per step.
        max_eval: evaluations per step; 1.25 * max_iter by default.
        tolerance_grad: stop when no gradient element is larger.
        tolerance_change: stop when loss or parameters change less.
        history_size: differences that are kept.
        line_search_fn: None, or "strong_wolfe".

    Raises:
        ValueError: several parameter groups.

    Source: J. Nocedal, S. Wright, Numerical optimization, 2nd edition, algorithms 7.4 and 3.5.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     opt.zero_grad()
        ...     loss = ((w - 3) ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> _ = opt.step(closure)
        >>> round(w.item(), 4)
        3.0
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def _flat_grad(self) -> Tensor:
        parts = []
        for p in self._params:
            grad = ops.zeros_like(p) if p.grad is None else p.grad.to_dense()
            if grad.is_complex():
                grad = ops.view_as_real(grad)
            parts.append(grad.reshape(-1))
        return ops.cat(parts).detach()

    def _move(self, t: float, direction: Tensor) -> None:
        """params += t * direction."""
        start = 0
        for p in self._params:
            target = ops.view_as_real(p) if p.is_complex() else p
            n = target.numel()
            target.add_(direction[start : start + n].view_as(target), alpha=float(t))
            start += n

    def _put(self, values: list[Tensor]) -> None:
        for p, value in zip(self._params, values):
            p.copy_(value)

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Run up to max_iter iterations.

        Args:
            closure: resets the gradients, evaluates the model, calls backward, returns the loss.

        Returns:
            What the first call of the closure returned.
        """
        with no_grad():
            return self._step(closure)

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, float, Tensor]:
        with enable_grad():
            value = closure()
        return value, float(value), self._flat_grad()

    def _step(self, closure: Callable[[], Any]) -> Any:
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"Expected exactly one param_group, but got {len(self.param_groups)}"
            )
        group = self.param_groups[0]
        lr = group["lr"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_value, loss, grad = self._evaluate(closure)
        state["func_evals"] += 1
        evaluations = 1
        if _largest(grad) <= group["tolerance_grad"]:
            return first_value
        d, t, scale = state.get("d"), state.get("t"), state.get("H_diag")
        old_dirs: list[Tensor] = state.get("old_dirs", [])
        old_steps: list[Tensor] = state.get("old_stps", [])
        ro: list[Tensor] = state.get("ro", [])
        previous, previous_loss = state.get("prev_flat_grad"), state.get("prev_loss")
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                d, old_dirs, old_steps, ro, scale = -grad, [], [], [], 1
            else:
                assert d is not None and t is not None and previous is not None
                y, s = grad - previous, d * t
                ys = y.dot(s)
                if float(ys) > 1e-10:
                    if len(old_dirs) == group["history_size"]:
                        for history in (old_dirs, old_steps, ro):
                            history.pop(0)
                    old_dirs.append(y)
                    old_steps.append(s)
                    ro.append(1.0 / ys)
                    scale = ys / y.dot(y)
                alphas = state.setdefault("al", [None] * group["history_size"])
                d = _two_loops(grad, old_dirs, old_steps, ro, scale, alphas)
            previous, previous_loss = grad.clone(), loss
            t = min(1.0, 1.0 / float(grad.abs().sum())) * lr if state["n_iter"] == 1 else lr
            slope = float(grad.dot(d))
            if slope > -group["tolerance_change"]:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                left = group["max_eval"] - evaluations
                loss, grad, t, calls = self._search(closure, t, d, loss, grad, slope, left)
                self._move(t, d)
                optimal = _largest(grad) <= group["tolerance_grad"]
            else:
                self._move(t, d)
                optimal = False
                if iterations != group["max_iter"]:
                    _, loss, grad = self._evaluate(closure)
                    optimal = _largest(grad) <= group["tolerance_grad"]
                    calls = 1
            evaluations += calls
            state["func_evals"] += calls
            if (
                iterations == group["max_iter"]
                or evaluations >= group["max_eval"]
                or optimal
                or _largest(d) * t <= group["tolerance_change"]
                or abs(loss - previous_loss) < group["tolerance_change"]
            ):
                break
        state.update(
            d=d,
            t=t,
            old_dirs=old_dirs,
            old_stps=old_steps,
            ro=ro,
            H_diag=scale,
            prev_flat_grad=previous,
            prev_loss=previous_loss,
        )
        return first_value

    def _search(
        self,
        closure: Callable,
        t: float,
        d: Tensor,
        loss: float,
        grad: Tensor,
        slope: float,
        most: int,
    ) -> tuple[float, Tensor, float, int]:
        """The line search: it tries a first step and at most `most` others, and leaves the parameters as they were."""
        group = self.param_groups[0]
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        start = [p.clone() for p in self._params]

        def evaluate(step: float) -> tuple[float, Tensor]:
            self._move(step, d)
            _, value, gradient = self._evaluate(closure)
            self._put(start)
            return value, gradient

        small = group["tolerance_change"]
        return strong_wolfe(
            evaluate, t, d, loss, grad, slope, tolerance_change=small, max_iterations=most
        )


def _largest(x: Tensor) -> float:
    return float(x.abs().max())


def _two_loops(
    grad: Tensor,
    dirs: list[Tensor],
    steps: list[Tensor],
    ro: list[Tensor],
    scale: Any,
    alphas: list[Any],
) -> Tensor:
    """Minus the inverse Hessian approximation times the gradient."""
    q = -grad
    for i in reversed(range(len(dirs))):
        alphas[i] = steps[i].dot(q) * ro[i]
        q = q - dirs[i] * alphas[i]
    r = q * scale
    for i in range(len(dirs)):
        beta = dirs[i].dot(r) * ro[i]
        r = r + steps[i] * (alphas[i] - beta)
    return r


def cubic_minimum(
    x1: float,
    f1: float,
    g1: float,
    x2: float,
    f2: float,
    g2: float,
    bounds: tuple[float, float] | None = None,
) -> float:
    """Where the cubic through two points with these slopes is smallest, within the bounds.

    A cubic that is a line is smallest at one of them; one that is constant, and values that are no numbers, give the
    middle.
    """
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    middle = (low + high) / 2.0
    if x1 > x2:
        x1, f1, g1, x2, f2, g2 = x2, f2, g2, x1, f1, g1
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return middle
    d2 = square**0.5
    above, below = g2 + d2 - d1, g2 - g1 + 2 * d2
    if not below:
        return high if above < 0 else low if above > 0 else middle
    at = x2 - (x2 - x1) * (above / below)
    return middle if isnan(at) else min(max(at, low), high)


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]],
    t: float,
    d: Tensor,
    f: float,
    g: Tensor,
    slope: float,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_iterations: int = 25,
) -> tuple[float, Tensor, float, int]:
    """A step length t that satisfies the strong Wolfe conditions.

    Args:
        evaluate: step length to (loss, gradient).
        t: first trial.
        d: the direction.
        f: loss at 0.
        g: gradient at 0.
        slope: g . d.
        c1: share of the predicted decrease that is asked for.
        c2: share of the slope that may be left.
        tolerance_change: smallest interval.
        max_iterations: evaluations at most, beside the first.

    Returns:
        (loss, gradient, t, evaluations).
    """

    def trial(t: float) -> Trial:
        value, gradient = evaluate(t)
        return t, value, gradient.clone(), float(gradient.dot(d))

    def too_high(point: Trial) -> bool:
        return point[1] > f + c1 * point[0] * slope

    def flat(point: Trial) -> bool:
        return abs(point[3]) <= -c2 * slope

    start = before = (0.0, f, g.clone(), slope)
    here = trial(t)
    i = 0
    while i < max_iterations:
        if too_high(here) or (i > 1 and here[1] >= before[1]):
            break
        if flat(here):
            return here[1], here[2], here[0], i + 1
        if here[3] >= 0:
            break
        t, value, _, rise = here
        bounds = (t + 0.01 * (t - before[0]), t * 10)
        t = cubic_minimum(before[0], before[1], before[3], t, value, rise, bounds)
        before, here = here, trial(t)
        i += 1
    else:
        before = start
    reach = _largest(d)
    small = lambda width: width * reach < tolerance_change
    best, used = _zoom([before, here], trial, too_high, flat, small, max_iterations - i)
    return best[1], best[2], best[0], i + 1 + used


def _zoom(
    bracket: list[Trial],
    trial: Callable[[float], Trial],
    too_high: Callable[[Trial], bool],
    flat: Callable[[Trial], bool],
    small: Callable[[float], bool],
    most: int,
) -> tuple[Trial, int]:
    """Shrink the bracket until a point in it satisfies the conditions: that point, and the trials it took."""
    stuck = False
    low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
    for used in range(most):
        (x1, f1, _, g1), (x2, f2, _, g2) = bracket
        if small(abs(x2 - x1)):
            return bracket[low], used
        t = cubic_minimum(x1, f1, g1, x2, f2, g2)
        left, right = min(x1, x2), max(x1, x2)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:  # too close to an end of the bracket
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        here = trial(t)
        if too_high(here) or here[1] >= bracket[low][1]:
            bracket[high] = here
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        elif flat(here):
            return here, used + 1
        else:
            if here[3] * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = here
    return bracket[low], most
