"""Random functions as text: a few lines of ops, views, writes, reductions, products and indexing on two tensors.

Each line is run as it is drawn, on gradlib itself, so that the next one knows the shapes; lines that fail or give great
numbers are dropped. The function works on copies of its arguments: it may write to anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib as gl

UNARY = """sin cos tanh sigmoid atan asinh erf square neg exp relu abs sqrt_ log_ softplus_ gelu_ silu_ elu_ cumsum_
 softmax_ log_softmax_ logsumexp_ cumprod_ sort_ flip_ roll_ tril_ clamp_ pow_ reciprocal_ expm1 sinc lgamma_ mish_
 layer_norm_ normalize_ fft_ diff_ pad_ unfold_ logcumsumexp_ leaky_ hardtanh_ complex_ var_ norm_ prod_""".split()
FORMS = {
    "sqrt_": "({} ** 2 + 0.5).sqrt()", "log_": "({} ** 2 + 0.5).log()", "softplus_": "F.softplus({})",
    "gelu_": "F.gelu({})", "silu_": "F.silu({})", "elu_": "F.elu({})", "cumsum_": "{}.cumsum({d})",
    "softmax_": "{}.softmax({d})", "log_softmax_": "{}.log_softmax({d})", "logsumexp_": "{}.logsumexp({d})",
    "cumprod_": "{}.cumprod({d})", "sort_": "{}.sort({d})[0]", "flip_": "{}.flip({d})", "roll_": "{}.roll(1, {d})",
    "tril_": "{}.tril()", "clamp_": "{}.clamp(-0.6, 0.7)", "pow_": "({} ** 3)", "reciprocal_": "1 / ({} ** 2 + 1)",
    "lgamma_": "({} ** 2 + 1).lgamma()", "mish_": "F.mish({})", "layer_norm_": "F.layer_norm({}, {}.shape[-1:])",
    "normalize_": "F.normalize({}, dim={d}, eps=1e-3)", "fft_": "torch.view_as_real(torch.fft.fft({}))",
    "diff_": "{}.diff(dim={d})", "pad_": "F.pad({}, (1, 0), value=0.5)", "unfold_": "{}.unfold({d}, 1, 1)",
    "logcumsumexp_": "{}.logcumsumexp({d})", "leaky_": "F.leaky_relu({}, 0.1)", "hardtanh_": "F.hardtanh({})",
    "complex_": "(torch.complex({}, {} * 2) ** 2).imag", "var_": "{}.var({d})", "norm_": "{}.norm()",
    "prod_": "{}.prod({d})",
}  # fmt: skip
IN_PLACE = """sin_() mul_(2) add_(V) mul_(V) sub_(V) neg_() tanh_() exp_() square_() sigmoid_() copy_(V) div_(2)
 pow_(2) clamp_(-0.5,0.6) addcmul_(V,V) lerp_(V,0.3) relu_() zero_() fill_(0.5) fill_(V.sum()) abs_() cumsum_(0)
 masked_fill_(M,0.5) reciprocal_() cos_() erf_() atan_()""".split()


def function_of(text: str) -> tuple[Callable, tuple[gl.Tensor, ...]]:
    """The function that a program is the body of, and the tensors to call it with."""
    body = "\n".join(f"    {line}" for line in text.splitlines())
    names: dict[str, Any] = {"torch": gl, "F": gl.nn.functional}
    exec(compile(f"def f(x, y):\n    x, y = x * 1, y * 1\n{body}", "<program>", "exec"), names)
    return names["f"], _inputs()


def _inputs() -> tuple[gl.Tensor, gl.Tensor]:
    rng = np.random.default_rng(3)
    draw = lambda *shape: gl.tensor(rng.uniform(-1.5, 1.5, shape).tolist(), dtype=gl.float64)
    return draw(3, 2), draw(2)


def program(seed: int) -> str:
    """The body of a function of `x` (3 by 2) and `y` (2)."""
    return _Maker(seed).body()


class _Maker:
    def __init__(self, seed: int):
        self.r = random.Random(seed)
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []
        self.count = 0
        self._restart()

    def body(self) -> str:
        goal, tries = self.r.randint(2, 9), 60
        while len(self.lines) < goal and tries:
            tries -= 1
            kind = self.r.choices(
                [
                    self.unary,
                    self.binary,
                    self.view,
                    self.write,
                    self.index,
                    self.joined,
                    self.product,
                ],
                [4, 4, 4, 5, 2, 2, 2],
            )[0]
            self.add(kind())
        results = [n for n in self.tensors() if n not in "xy"][-3:] or ["x"]
        return "\n".join([*self.lines, f"return {', '.join(self.r.sample(results, len(results)))}"])

    def add(self, text: str) -> None:
        try:
            exec(text, self.names)
            good = all(
                t.numel()
                and t.numel() < 80
                and t.is_floating_point()
                and bool((t.abs() < 30).all())
                for t in map(self.names.get, self.tensors())
                if t is not None
            )
        except Exception:
            good = False
        if good:
            self.lines.append(text)
        else:
            self._restart()

    def _restart(self) -> None:
        """Run again what is kept: the line that was dropped may have changed something."""
        self.names = {"torch": gl, "F": gl.nn.functional}
        self.names["x"], self.names["y"] = (t.requires_grad_() * 1 for t in _inputs())
        for line in self.lines:
            exec(line, self.names)

    # -- choices --------------------------------------------------------------------------------------------------

    def tensors(self) -> list[str]:
        return [n for n, t in self.names.items() if isinstance(t, gl.Tensor)]

    def pick(self) -> str:
        found = self.tensors()
        return found[max(self.r.randrange(len(found)), self.r.randrange(len(found)))]

    def new(self) -> str:
        self.count += 1
        return f"z{self.count}"

    def dim(self, name: str) -> int:
        n = self.names[name].ndim
        return self.r.randrange(-n, n) if n else 0

    def fitting(self, shape: tuple) -> str:
        """Something that broadcasts to `shape`."""
        fits = [
            n for n in self.tensors()
            if self.names[n].ndim <= len(shape)
            and all(a in (b, 1) for a, b in zip(reversed(self.names[n].shape), reversed(shape)))
        ]  # fmt: skip
        return self.r.choice(fits) if fits and self.r.random() < 0.8 else f"{self.pick()}.sum()"

    # -- lines ----------------------------------------------------------------------------------------------------

    def unary(self) -> str:
        x, kind = self.pick(), self.r.choice(UNARY)
        text = FORMS.get(kind, "{}." + kind + "()")
        return f"{self.new()} = {text.replace('{d}', str(self.dim(x))).replace('{}', x)}"

    def binary(self) -> str:
        x = self.pick()
        y = self.fitting(tuple(self.names[x].shape))
        form = self.r.choice([
            "{x} * {y}", "{x} * {y}", "{x} + {y}", "{x} - {y}", "{x} / ({y} ** 2 + 1)", "torch.maximum({x}, {y})",
            "torch.atan2({x}, {y} + 3)", "torch.where({x} > {y}, {x} * 2, {y})", "({x} ** 2 + 0.1) ** {y}",
            "torch.logaddexp({x}, {y})", "{x}.lerp({y}.expand_as({x}), 0.3)", "torch.hypot({x}, {y} + 2)",
            "{y} * 2 - {x}", "F.mse_loss({x}, {y}.expand_as({x}))", "torch.addcmul({x}, {x}, {y})",
        ])  # fmt: skip
        return f"{self.new()} = {form.format(x=x, y=y)}"

    def place(self, x: str) -> str:
        """Text of a view of `x`."""
        t, d = self.names[x], self.dim(x)
        n = t.shape[d] if t.ndim else 1
        k = self.r.randrange(n)
        forms = [
            f"{x}.view(-1)",
            f"{x}.unsqueeze({d})",
            f"{x}[None]",
            f"{x}[...]",
            f"{x}.reshape(-1)",
        ]
        if t.ndim:
            forms += [
                f"{x}[{self.r.randrange(t.shape[0])}]", f"{x}.select({d}, {k})", f"{x}.narrow({d}, {k}, {n - k})",
                f"{x}[..., ::2]", f"{x}.squeeze({d})", f"{x}[{self.r.randrange(t.shape[0])}:]", f"{x}.mT",
            ]  # fmt: skip
        if t.ndim > 1:
            forms += [
                f"{x}.transpose(0, -1)",
                f"{x}.diagonal()",
                f"{x}.permute({self.r.sample(range(t.ndim), t.ndim)})",
            ]
        if t.numel() > 2 and t.is_contiguous():
            forms.append(f"{x}.as_strided((2,), (1,))")
        return self.r.choice(forms)

    def view(self) -> str:
        x = self.pick()
        if self.r.random() < 0.1:
            return f"{self.new()} = {x}.expand(2, {', '.join(['-1'] * self.names[x].ndim)}) * 1"
        return f"{self.new()} = {self.place(x)}"

    def write(self) -> str:
        x = self.pick()
        if self.r.random() < 0.2:
            return f"{self.new()} = {x} * {self.r.choice([1, 2])}"
        text = self.place(x) if self.r.random() < 0.5 else x
        try:
            with gl.no_grad():
                t = eval(text, self.names)
        except Exception:
            return "raise"
        if text.startswith(x + "[") and self.r.random() < 0.5:
            value = self.fitting(tuple(t.shape)) if self.r.random() < 0.7 else "0.5"
            return f"{text} {self.r.choice(['=', '*=', '+=', '-='])} {value}"
        call = self.r.choice(IN_PLACE).replace("M", f"{text} > 0.2")
        while "V" in call:
            call = call.replace(
                "V", f"({self.fitting(tuple(t.shape))}).expand({tuple(t.shape)})", 1
            )
        return f"{text}.{call}"

    def index(self) -> str:
        x = self.pick()
        t = self.names[x]
        if not t.ndim:
            return f"{self.new()} = {x}[None]"
        n, k = t.shape[0], self.r.randrange(t.shape[0])
        forms = [
            f"{x}[[{k}, 0, {k}]]", f"{x}[torch.tensor([{k}, {n - 1}])]", f"{x}[{x} > 0.1]", f"{x}[..., [0, 0]]",
            f"{x}.index_select(0, torch.tensor([{k}, {k}]))",
            f"{x}.index_add(0, torch.tensor([{k}, 0]), {x}[[0, {k}]] * 2)",
            f"{x}.gather(0, ({x} > 0).long() * {n - 1})", f"{x}.scatter_add(0, ({x} > 0).long() * {n - 1}, {x} * {x})",
            f"{x}.masked_fill({x} > 0.3, 0.2)",
            f"{x}.index_put((torch.tensor([{k}, {k}]),), {x}[[0, {k}]], accumulate=True)",
            f"{x}.topk(1, 0)[0]", f"{x}.select_scatter({x}[{k}] * 2, 0, 0)", f"{x}.take(torch.tensor([0, {k}]))",
            f"{x}.amax({self.dim(x)})", f"{x}.max({self.dim(x)})[0]", f"{x}.repeat_interleave(2, 0)",
            f"{x}.cummax(0)[0]",
        ]  # fmt: skip
        return f"{self.new()} = {self.r.choice(forms)}"

    def joined(self) -> str:
        x = self.pick()
        d = self.dim(x)
        forms = [f"torch.cat([{x}, {x} * 2], {d})", f"torch.stack([{x}, {x}.sin()], {d})", f"{x}.sum({d})",
                 f"{x}.mean({d}, keepdim=True)", f"({x}.var() + 1e-3).sqrt()",
                 f"{x}.repeat(2{', 1' * (self.names[x].ndim - 1)})",
                 f"sum({x}.unbind({d}))", f"torch.cat({x}.chunk(2, {d})[::-1], {d})"]  # fmt: skip
        return f"{self.new()} = {self.r.choice(forms)}"

    def product(self) -> str:
        x = self.pick()
        forms = [f"{x}.flatten().outer(y)", f"torch.einsum('...i,...i->...', {x}, {x})"]
        if self.names[x].ndim > 1:
            forms += [f"{x} @ {x}.mT", f"{x}.mT @ {x}", f"F.linear({x}, {x})", f"torch.cdist({x}, {x} + 1)",
                      f"torch.linalg.solve({x}.mT @ {x} + torch.eye({x}.shape[-1]) * 3, {x}.mT)",
                      f"torch.linalg.det({x}.mT @ {x} + torch.eye({x}.shape[-1]))",
                      f"F.conv1d({x}.unsqueeze(-2).flatten(0, -3), {x}.flatten()[:2].view(1, 1, 2), padding=1)",
            ]  # fmt: skip
        return f"{self.new()} = {self.r.choice(forms)}"
