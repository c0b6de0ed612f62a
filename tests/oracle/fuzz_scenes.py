"""Lines of random programs about autograd: backward, hooks, Functions, transforms, duals, modules, optimizers."""

from __future__ import annotations

import re
import textwrap

import torch
from fuzz_lines import dims, view_of
from fuzz_maker import Maker, line, place_of

# -- backward ----------------------------------------------------------------------------------------------------


def loss_of(m: Maker, x: str) -> str:
    """Text of a real number made of `x`."""
    t = m.value(x)
    if t.is_complex():
        return m.one(f"({x} * {x}.conj()).real.sum()", f"{x}.abs().sum()", f"{x}.real.sum()")
    if not t.ndim and m.chance(0.4):
        return x
    return m.one(f"({x} * {x}).sum()", f"{x}.sum()", f"({x} ** 3).sum()", f"({x} * {x}.detach()).mean()",
                 f"{x}.exp().sum()", f"({x} * {m.operand(tuple(t.shape), t.dtype)}).sum()")  # fmt: skip


def recorded(m: Maker) -> str | None:
    return m.pick(lambda t: t.requires_grad)


def wanted(m: Maker) -> list[str]:
    """Tensors to ask the gradients of: leaves mostly."""
    names = m.tensors(lambda t: t.requires_grad and (t.is_leaf or m.chance(0.4)))
    return m.r.sample(names, min(len(names), m.one(1, 1, 2, 3)))


def options(m: Maker, *more: tuple[str, float]) -> str:
    """Keyword arguments drawn by their chances."""
    return "".join(f", {text}" for text, p in more if m.chance(p))


@line(6, inside=False)
def backward(m: Maker) -> str | None:
    x = recorded(m)
    if not x:
        return None
    names = wanted(m)
    more = options(m, ("retain_graph=True", 0.4), ("create_graph=True", 0.2),
                   (f"inputs=[{', '.join(names)}]", 0.15 if names else 0))  # fmt: skip
    if m.chance(0.25):
        return f"{x}.backward(torch.ones_like({x}){' * 2' if m.chance(0.3) else ''}{more})"
    if m.chance(0.08):
        return f"torch.autograd.backward([{loss_of(m, x)}, {loss_of(m, x)}]{more})"
    return f"{loss_of(m, x)}.backward({more[2:]})"


@line(4)
def gradient(m: Maker) -> str | None:
    x, names = recorded(m), wanted(m)
    if not x or not names:
        return None
    more = options(m, ("retain_graph=True", 0.3), ("create_graph=True", 0.45), ("allow_unused=True", 0.35),
                   ("materialize_grads=True", 0.15))  # fmt: skip
    new = ", ".join(m.fresh("g") for _ in names)
    left = f"({new},)" if m.chance(0.75) else m.fresh("gs")
    if m.chance(0.12):
        shape = tuple(m.value(x).shape)
        seeds = m.fresh_tensor((2, *shape), m.value(x).dtype, 0)
        return f"{left} = torch.autograd.grad({x}, [{', '.join(names)}], {seeds}, is_grads_batched=True{more})"
    if m.chance(0.15):
        return (
            f"{left} = torch.autograd.grad({x}, [{', '.join(names)}], torch.ones_like({x}){more})"
        )
    return f"{left} = torch.autograd.grad({loss_of(m, x)}, [{', '.join(names)}]{more})"


@line(2, inside=False)
def on_grad(m: Maker) -> str | None:
    """Something done to a .grad."""
    x = m.pick(lambda t: t.is_leaf and t.grad is not None)
    if not x:
        return None
    g = f"{x}.grad"
    return m.one(f"{g} = None", f"{g}.zero_()", f"{g}.mul_(2)", f"{m.fresh('g')} = {g}", f"{g} = {g} * 2", f"log({g})",
                 f"{g} = {g}.detach()", f"{g} += 1", f"{m.fresh('g')} = {view_of(m, g, m.value(x))}",
                 f"{x}.data.sub_({g}, alpha=0.1)", f"{g}.requires_grad_()", f"{m.fresh('g')} = {g} * {x}")  # fmt: skip


@line(1.5, inside=False)
def logged(m: Maker) -> str | None:
    x, y = m.pick(), m.pick()
    if not x:
        return None
    facts = m.one("is_leaf", "requires_grad", "retains_grad", "grad_fn is None", "is_inference()", "grad",
                  "output_nr", "stride()", "is_contiguous()")  # fmt: skip
    if facts == "stride()" and not all(n > 1 for n in m.value(x).shape):
        return None  # the stride of a single element says nothing
    if facts == "retains_grad" or not m.chance(0.15):
        return f"log({x}.{facts})"
    return f"log({x}.untyped_storage().data_ptr() == {y}.untyped_storage().data_ptr())"


# -- hooks -------------------------------------------------------------------------------------------------------


@line(3.5, inside=False)
def hook(m: Maker) -> str | None:
    x = recorded(m)
    if not x:
        return None
    t = m.value(x)
    inner = t.grad_fn is not None
    log = f"log('{x}', g)"
    calls = [
        f"{x}.register_hook(lambda g: g * 2)", f"{x}.register_hook(lambda g: {log})", f"{x}.retain_grad()",
        f"{x}.register_hook(lambda g: g + {x})", f"{x}.register_hook(lambda g: g.mul_(2))",
        f"{x}.register_hook(lambda g: g.detach())", f"{x}.retain_grad()", f"{x}.register_hook(lambda g: g.sum())",
    ]  # fmt: skip
    if inner:
        calls += [
            f"{x}.grad_fn.register_hook(lambda gi, go: log('n{x}', gi, go))",
            f"{x}.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else g * 2 for g in gi))",
            f"{x}.grad_fn.register_prehook(lambda go: log('p{x}', go))",
            f"{x}.grad_fn.register_prehook(lambda go: tuple(None if g is None else g * 3 for g in go))",
        ]  # fmt: skip
    else:
        calls += [
            f"{x}.register_post_accumulate_grad_hook(lambda p: log('a{x}', p.grad))",
            f"{x}.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2) and None)",
            f"{x}.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', None))",
        ]  # fmt: skip
    y = recorded(m)
    if y != x:
        mode = m.one("", ", mode='any'")
        shown = "log('m', gs)"
        calls.append(
            f"torch.autograd.graph.register_multi_grad_hook([{x}, {y}], lambda gs: {shown}{mode})"
        )
    call = m.r.choice(calls)
    if m.chance(0.1) and "register" in call:
        return f"h = {call}\nh.remove()"
    return call


# -- custom Functions --------------------------------------------------------------------------------------------

FUNCTIONS = {
    "cube": ("y = x ** 3\n{ctx}.save_for_backward(x)", "g * ctx.saved_tensors[0] ** 2 * 3"),
    "exp": ("y = x.exp()\n{ctx}.save_for_backward(y)", "g * ctx.saved_tensors[0]"),
    "double": ("y = x.mul_(2)\n{ctx}.mark_dirty(x)", "g * 2"),
    "same": ("y = x", "g * 3"),
    "viewed": ("y = x.view(-1)", "g.view({ctx}.shape) * 2"),
    "kept": ("y = x * 2\n{ctx}.mark_non_differentiable(y)", "g * 7"),
    "two": ("y = (x * 2, x.sin())\n{ctx}.save_for_backward(x)",
            "(g if g is not None else 0) * 2 + (0 if h is None else h * ctx.saved_tensors[0].cos())"),
    "wrong": ("y = x * 2", "g.sum()"),
    "none": ("y = x * 2", "None"),
}  # fmt: skip


@line(1, inside=False)
def function(m: Maker) -> str:
    kind = m.r.choice(list(FUNCTIONS))
    forward, backward = FUNCTIONS[kind]
    name = m.fresh("Fn")
    settings = [s for s in ("ctx.set_materialize_grads(False)",) if m.chance(0.2)]
    grads = "g, h" if kind == "two" else "g"
    lines = [f"class {name}(torch.autograd.Function):"]
    if m.chance(0.3):
        lines.append("    generate_vmap_rule = True")
    if m.chance(0.5):
        body = [*settings, "ctx.shape = x.shape", *forward.replace("{ctx}", "ctx").split("\n")]
        lines += [
            "    @staticmethod",
            "    def forward(ctx, x):",
            *(f"        {b}" for b in body),
            "        return y",
        ]
    else:
        first, *rest = forward.replace("{ctx}", "ctx").split("\n")
        lines += [
            "    @staticmethod",
            "    def forward(x):",
            f"        {first}",
            "        return y",
        ]
        body = [*settings, "(x,) = inputs", "ctx.shape = x.shape", *rest]
        lines += [
            "    @staticmethod",
            "    def setup_context(ctx, inputs, y):",
            *(f"        {b}" for b in body),
        ]
    if m.chance(0.1):
        lines += ["    @staticmethod", "    @torch.autograd.function.once_differentiable"]
    else:
        lines += ["    @staticmethod"]
    lines += [
        f"    def backward(ctx, {grads}):",
        f"        return {backward.replace('{ctx}', 'ctx')}",
    ]
    if m.chance(0.3) and kind in ("cube", "exp"):
        lines += ["    @staticmethod", "    def jvp(ctx, t):", "        return t * 2"]
    m.functions.append(f"{name}.apply" + ("" if kind != "two" else "|two"))
    return "\n".join(lines)


@line(2)
def applied(m: Maker) -> str | None:
    x = m.pick()
    known = [f for f in m.functions if f.partition("|")[0].split(".")[0] in m.names]
    if not x or not known:
        return None
    call, _, two = m.r.choice(known).partition("|")
    given = f"{x} * 1" if m.chance(0.4) else view_of(m, x, m.value(x)) if m.chance(0.3) else x
    new = f"{m.fresh()}, {m.fresh()}" if two else m.fresh()
    return f"{new} = {call}({given})"


# -- functions of random lines -----------------------------------------------------------------------------------


def defined(
    m: Maker, arguments: dict[str, torch.Tensor], outputs: int, real: bool, pure: bool = False
) -> tuple[str, str] | None:
    """The text of a function of random lines, and its name; `pure`: it writes to nothing that was there before."""
    inner = m.inner(arguments, m.one(1, 2, 2, 3, 4))
    before = [v for n, v in inner.names.items() if n in inner.start and isinstance(v, torch.Tensor)]
    if pure and any(not v.is_inference() and v._version for v in before):
        return None  # how much of it runs again depends on what is saved
    results = [
        n for n, v in inner.names.items()
        if isinstance(v, torch.Tensor) and n not in inner.start and not n.startswith("_")
        and (v.is_floating_point() or v.is_complex())
    ]  # fmt: skip
    if not results:
        return None
    name = m.fresh("f")
    if real:
        x = results[-1]
        result = (
            f"{x}.real.sum()"
            if inner.value(x).is_complex()
            else m.one(f"{x}.sum()", f"({x} ** 2).sum()", f"({x} * {next(iter(arguments))}).sum()")
        )
    else:
        result = ", ".join(results[-outputs:])
    body = inner.body() or "pass"
    text = (
        f"def {name}({', '.join(arguments)}):\n{textwrap.indent(body, '    ')}\n    return {result}"
    )
    return text, name


def sample(t: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return t.detach().clone()


def transformed(m: Maker, f: str, x: str, arguments: int, real: bool, depth: int) -> str:
    """Text of a transform of the function called `f` at `x`, itself callable as `f` is."""
    which = m.r.choice(range(arguments))
    at = f", argnums={which}" if which else ""
    text = m.words(
        "grad grad jacrev jacfwd hessian jacrev" if real else "jacrev jacfwd jacrev jacfwd"
    )
    made = f"{text}({f}{at})"
    if depth and m.chance(0.3):
        return f"{m.words('jacrev jacfwd')}({made})"
    return made


@line(3)
def transform(m: Maker) -> str | None:
    if m.depth > 1:
        return None
    float_like = lambda t: t.is_floating_point() and t.numel() < 30
    x = m.pick(float_like)
    if not x:
        return None
    arguments = {m.fresh("z"): sample(m.value(x))}
    given = [x]
    apart = lambda t: float_like(t) and place_of(t) != place
    place = place_of(m.value(x))
    if m.chance(0.3) and (y := m.pick(apart)):
        arguments[m.fresh("z")] = sample(m.value(y))
        given.append(y)
    kind = m.words("t t t vjp jvp jvp call")
    real = kind == "t" and m.chance(0.7)
    made = defined(m, arguments, 1, real)
    if not made:
        return None
    text, f = made
    new, listed = m.fresh(), ", ".join(given)
    if kind == "t":
        call = transformed(m, f, x, len(given), real, m.depth == 0)
        return f"{text}\n{new} = {call}({listed})"
    if kind == "vjp":
        return f"{text}\n{new}, {new}v = vjp({f}, {listed})\n{m.fresh('g')} = {new}v(torch.ones_like({new}))"
    tangents = ", ".join(
        m.fresh_tensor(tuple(m.value(g).shape), m.value(g).dtype, 0) for g in given
    )
    if kind == "jvp":
        return f"{text}\n{new}, {m.fresh('t')} = jvp({f}, ({listed},), ({tangents},))"
    what = m.words("jacobian hessian vjp jvp hvp vhp")
    return f"{text}\n{m.fresh('gs')} = torch.autograd.functional.{what}({f}, ({listed},))"


@line(3)
def vectorized(m: Maker) -> str | None:
    if m.depth > 1:
        return None
    x = m.pick(lambda t: 0 < t.ndim < 4 and 0 < t.numel() < 60 and not t.is_complex())
    if not x:
        return None
    t = m.value(x)
    d = m.one(0, 0, dims(m, t.shape))
    arguments, given, in_dims = {m.fresh("z"): sample(t.select(d, 0))}, [x], [str(d)]
    if m.chance(0.35):
        y = m.pick(lambda u: u.ndim > 0 and u.shape[0] == t.shape[d])
        if y:
            arguments[m.fresh("z")] = sample(m.value(y).select(0, 0))
            given.append(y)
            in_dims.append("0")
        elif y := m.pick():
            arguments[m.fresh("z")] = sample(m.value(y))
            given.append(y)
            in_dims.append("None")
    real = m.chance(0.5) and all(a.is_floating_point() for a in arguments.values())
    more = options(m, ("chunk_size=2", 0.05))
    made = defined(m, arguments, 1, real, pure="chunk" in more)
    if not made:
        return None
    text, f = made
    called = transformed(m, f, x, len(given), True, False) if real else f
    new = m.fresh()
    more += "" if set(in_dims) == {"0"} else f", in_dims=({', '.join(in_dims)},)"
    return f"{text}\n{new} = vmap({called}{more})({', '.join(given)})"


@line(2.5, inside=False)
def dual(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_floating_point() and not t.is_inference())
    if not x:
        return None
    z = m.fresh("d")
    inner = m.inner({z: sample(m.value(x))}, m.one(1, 2, 3, 4))
    results = [
        n for n, v in inner.names.items() if isinstance(v, torch.Tensor) and n not in inner.start
    ]
    tangent = m.fresh_tensor(tuple(m.value(x).shape), m.value(x).dtype, 0)
    shown = "\n".join(
        f"log([None if t is None else t.detach().clone() for t in fwAD.unpack_dual({n})])"
        for n in (*results[-2:], z)
    )
    clean = f"del {', '.join([z, *results])}"
    body = f"{z} = fwAD.make_dual({x}, {tangent})\n{inner.body()}\n{shown}"
    if m.chance(0.7):
        body += f"\n{clean}"
    return f"with fwAD.dual_level():\n{textwrap.indent(body, '    ')}"


@line(1, inside=False)
def checkpointed(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_floating_point())
    if not x:
        return None
    made = defined(m, {m.fresh("z"): sample(m.value(x))}, 1, False, pure=True)
    if not made:
        return None
    text, f = made
    reentrant = m.one("False", "False", "True")
    return f"{text}\n{m.fresh()} = torch.utils.checkpoint.checkpoint({f}, {x}, use_reentrant={reentrant})"


# -- modules and optimizers --------------------------------------------------------------------------------------

MODULES = {
    1: "nn.Linear({n}, 2)|nn.LayerNorm({n})|nn.PReLU()|nn.Softmax(-1)|nn.Linear({n}, 3, bias=False)|nn.RMSNorm({n})",
    2: "nn.Linear({n}, 2)|nn.BatchNorm1d({n})|nn.LayerNorm({n})|nn.Sequential(nn.Linear({n}, 3), nn.ReLU(inplace=True))"
    "|nn.RNNCell({n}, 2)|nn.GRUCell({n}, 2)|nn.Dropout(0.0)|nn.utils.parametrizations.weight_norm(nn.Linear({n}, 2))"
    "|nn.Sequential(nn.Linear({n}, {n}), nn.Tanh(), nn.Linear({n}, 1))|nn.Conv1d({m}, 2, 1)",
    3: "nn.Linear({n}, 2)|nn.Conv1d({c}, 2, 2, padding=1)|nn.BatchNorm1d({c})|nn.GroupNorm(1, {c})|nn.MaxPool1d(2)"
    "|nn.InstanceNorm1d({c})|nn.ConvTranspose1d({c}, 2, 2)|nn.AvgPool1d(2, 1)|nn.Flatten()",
    4: "nn.Conv2d({c}, 2, 2)|nn.BatchNorm2d({c})|nn.MaxPool2d(2)|nn.AvgPool2d(2)|nn.AdaptiveAvgPool2d(1)"
    "|nn.ConvTranspose2d({c}, 2, 2)|nn.Upsample(scale_factor=2)|nn.PixelUnshuffle(2)",
}  # fmt: skip


@line(2.5, inside=False)
def module(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_floating_point() and 0 < t.ndim < 5 and t.numel() > 0)
    if not x:
        return None
    t = m.value(x)
    shape = tuple(t.shape)
    text = m.r.choice(MODULES[t.ndim].split("|"))
    if t.ndim == 3 and m.chance(0.5):
        text = "nn.Linear({n}, 2)"
    text = text.format(n=shape[-1], m=shape[0], c=shape[1] if t.ndim > 1 else 1)
    net, new = m.fresh("net"), m.fresh()
    cast = "" if t.dtype == torch.float32 else ".double()"
    lines = [f"{net} = fill({text}{cast})"]
    if m.chance(0.25):
        lines.append(f"{net}." + m.one(
            "register_forward_hook(lambda mod, i, o: o * 2)", "register_forward_pre_hook(lambda mod, i: (i[0] * 2,))",
            "register_full_backward_hook(lambda mod, gi, go: log('b', gi, go))", "eval()", "requires_grad_(False)",
            "register_full_backward_hook(lambda mod, gi, go: tuple(None if g is None else g * 2 for g in gi))",
            "register_full_backward_pre_hook(lambda mod, go: tuple(g * 2 for g in go))", "train()",
        ))  # fmt: skip
    lines.append(f"{new} = {net}({x})")
    if m.chance(0.3):
        lines.append(f"log(list({net}.state_dict().items()))")
    if m.chance(0.3):
        lines += [f"({new} * {new}).sum().backward()", f"log([p.grad for p in {net}.parameters()])"]
    elif m.chance(0.3):
        lines[-1:] = [
            f"{new} = functional_call({net}, {{k: v * 2 for k, v in {net}.named_parameters()}}, ({x},))"
        ]
    return "\n".join(lines)


@line(2)
def layer(m: Maker) -> str | None:
    x = m.pick(lambda t: t.is_floating_point() and t.numel() > 0)
    if not x:
        return None
    t = m.value(x)
    y = m.operand(tuple(t.shape), t.dtype, True)
    calls = [
        f"F.mse_loss({x}, {y})", f"F.l1_loss({x}, {y}, reduction='sum')", f"F.smooth_l1_loss({x}, {y})",
        f"F.huber_loss({x}, {y})", f"F.leaky_relu({x}, 0.1)", f"F.dropout({x}, 0.0)", f"F.softsign({x})",
        f"F.binary_cross_entropy_with_logits({x}, {y}.sigmoid())", f"F.threshold({x}, 0.1, 20)", f"F.selu({x})",
        f"F.hardswish({x})", f"F.mish({x})", f"F.glu({x})", f"F.kl_div({x}, {y}.softmax(-1))", f"F.celu({x})",
        f"F.cosine_similarity({x}, {y}, dim=-1)", f"F.softmin({x}, -1)", f"F.hardshrink({x})",
        f"F.gaussian_nll_loss({x}, {y}, {y}.abs() + 1)", f"F.tanhshrink({x})", f"torch.nn.functional.relu6({x})",
    ]  # fmt: skip
    if t.ndim == 2:
        rows = [m.r.randrange(t.shape[1]) for _ in range(t.shape[0])]
        calls += [f"F.cross_entropy({x}, torch.tensor({rows}))", f"F.nll_loss({x}, torch.tensor({rows}))",
                  f"F.embedding(torch.tensor([[0, 0]]), {x})", f"F.batch_norm({x}, None, None, training=True)",
                  f"F.pdist({x})", f"torch.cdist({x}, {x} + 1)", f"F.max_pool1d({x}, 2, 1)"]  # fmt: skip
        if t.shape[0] == t.shape[1]:
            calls += [f"torch.linalg.det({x})", f"torch.linalg.inv({x} + torch.eye({t.shape[0]}) * 9)",
                      f"torch.trace({x})", f"torch.linalg.solve({x} + torch.eye({t.shape[0]}) * 9, {x})"]  # fmt: skip
    if t.ndim in (3, 4):
        c = t.shape[1]
        calls += [
            f"F.avg_pool{t.ndim - 2}d({x}, 2)", f"F.interpolate({x}, scale_factor=2)", f"F.group_norm({x}, 1)",
            f"F.max_pool{t.ndim - 2}d({x}, 2)", f"F.instance_norm({x})",
            f"F.conv{t.ndim - 2}d({x}, {m.fresh_tensor((2, c, *[1] * (t.ndim - 2)), t.dtype)})",
            f"F.scaled_dot_product_attention({x}, {x}, {x})",
        ]  # fmt: skip
    return f"{m.fresh()} = {m.r.choice(calls)}"


OPTIMIZERS = """SGD(P, lr=0.1)|SGD(P, lr=0.1, momentum=0.9)
|SGD(P, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)|Adam(P, lr=0.1)|AdamW(P, lr=0.1, amsgrad=True)
|RMSprop(P, lr=0.1, centered=True)|Adagrad(P, lr=0.1)|Adadelta(P)
|NAdam(P, lr=0.1)|RAdam(P, lr=0.1)|Adamax(P, lr=0.1)|ASGD(P, lr=0.1)|Rprop(P, lr=0.1)|Adam(P, lr=0.1, maximize=True)
|SGD(P, lr=0.1, maximize=True, foreach=False)|Adam(P, lr=0.1, differentiable=False, foreach=True)""".replace(
    "\n", ""
).split("|")


@line(1.5, inside=False)
def optimizer(m: Maker) -> str | None:
    leaves = m.tensors(lambda t: t.requires_grad and t.is_leaf and not t.is_inference())
    opts = [n for n in m.names if n.startswith("opt")]
    if opts and m.chance(0.7):
        opt = m.r.choice(opts)
        return m.one(f"{opt}.step()", f"{opt}.step()", f"{opt}.zero_grad()", f"{opt}.zero_grad(set_to_none=False)",
                     f"{opt}.load_state_dict(copy.deepcopy({opt}.state_dict()))",
                     f"log({opt}.state_dict()['state'])")  # fmt: skip
    if not leaves:
        return None
    chosen = m.r.sample(leaves, min(len(leaves), 2))
    if len({place_of(m.value(x)) for x in chosen}) < len(chosen):
        return None  # one parameter twice
    made = m.r.choice(OPTIMIZERS).replace("P", f"[{', '.join(chosen)}]", 1)
    opt = m.fresh("opt")
    text = f"{opt} = torch.optim.{made}"
    if m.chance(0.6):
        losses = " + ".join(f"({x} * {x}.conj()).real.sum()" for x in chosen)
        text += f"\n({losses}).backward()\n{opt}.step()"
    return text


# -- the end -----------------------------------------------------------------------------------------------------


def ending(m: Maker) -> list[str]:
    """Lines that show what has become of everything: gradients, versions, which tensors share memory."""
    lines = []
    x = recorded(m)
    if x and m.chance(0.6):
        lines.append(f"{loss_of(m, x)}.backward()")
    names = m.tensors(lambda t: not t.is_inference())
    text = m.body()
    counted = [
        n for n in names if f"\n{n} = D(" in f"\n{text}" and not re.search("optim|out=|vmap", text)
    ]
    if counted and m.chance(0.6):  # of results of an op the first version may be 0 or 1
        lines.append(f"log([{', '.join(f'{n}._version' for n in counted)}])")
    if names and m.chance(0.4):
        lines.append(f"{m.r.choice(names)}.data.add_(1)")
    return lines
