"""Lines of random programs that make, view, index, change and combine tensors."""

from __future__ import annotations

import re

import torch
from fuzz_maker import Maker, has_ties, line, overlaps, place_of

UNARY = """sin cos tanh exp sigmoid square neg abs atan asinh relu sqrt log reciprocal erf sinh sgn floor sign
 softplus_ clone softmax_ log_softmax_ gelu_ silu_ elu_ tril_ triu_ cumsum_ flip_ roll_ logsigmoid_ normalize_
 layer_norm_ positive expm1 log1p cumprod_ sort_ hardtanh_ clamp_ pow_ conj_ angle nan_to_num trunc frac""".split()
FORMS = {
    "softplus_": "F.softplus({})", "softmax_": "{}.softmax({d})", "log_softmax_": "{}.log_softmax({d})",
    "gelu_": "F.gelu({})", "silu_": "F.silu({})", "elu_": "F.elu({})", "tril_": "{}.tril()", "triu_": "{}.triu(1)",
    "cumsum_": "{}.cumsum({d})", "flip_": "{}.flip({d})", "roll_": "{}.roll(1, {d})",
    "logsigmoid_": "F.logsigmoid({})", "normalize_": "F.normalize({}, dim={d})",
    "layer_norm_": "F.layer_norm({}, {}.shape[-1:])", "cumprod_": "{}.cumprod({d})", "sort_": "{}.sort({d})[0]",
    "hardtanh_": "F.hardtanh({})", "clamp_": "{}.clamp(-0.5, 1)", "pow_": "{} ** 2", "conj_": "({}.conj() * 1)",
}  # fmt: skip
REDUCTIONS = "sum mean amax amin prod logsumexp norm std var max min nansum cumsum aminmax median argmax any".split()
IN_PLACE = """sin_ cos_ exp_ tanh_ sigmoid_ neg_ abs_ relu_ square_ sqrt_ reciprocal_ floor_ sign_ zero_ erf_ atan_
 sgn_ log1p_ expm1_ sinh_ trunc_ frac_ rsqrt_ log_ asinh_ nan_to_num_ tril_ triu_""".split()


def dims(m: Maker, shape: tuple) -> int:
    return m.r.randrange(-len(shape), len(shape)) if shape else 0


# -- making ------------------------------------------------------------------------------------------------------


@line(3)
def create(m: Maker) -> str:
    dtype = m.one(
        *[torch.float64] * 12, torch.float32, torch.complex128, torch.complex128, torch.int64
    )
    shape, name = m.shape(), m.fresh()
    rg = 0.0 if dtype == torch.int64 else 0.7 if m.depth == 0 else 0.2
    if m.chance(0.75) or dtype == torch.int64:
        return f"{name} = {m.fresh_tensor(shape, dtype, rg)}"
    text = m.fresh_tensor(shape, dtype, 0)
    match m.r.randrange(7):
        case 0 if len(shape) > 1:
            text += f".transpose(0, {len(shape) - 1}).clone()"
        case 1 if shape:
            text += "[..., ::2]"
        case 2:
            text += f".expand(2, {', '.join(['-1'] * len(shape))})" if shape else ".expand(2)"
        case 3 if shape:
            text += "[1:]"
        case 4:
            text = f"{m.fresh_tensor((2, 2, 2, 2), dtype, 0)}.to(memory_format=torch.channels_last)"
        case 5 if not m.depth:
            return f"{name} = nn.Parameter({text})"
        case 6:
            kind = m.words("zeros ones empty_like zeros_like ones_like")
            if kind == "empty_like":
                return f"{name} = torch.full_like({text}, 0.5)"
            end = "()" if kind.endswith("like") else ""
            shown = text if kind.endswith("like") else f"{shape}, dtype=torch.float64"
            return f"{name} = torch.{kind}({shown}){'.requires_grad_' + end if end and m.chance(0.5) else ''}"
    leaf = text.endswith((".clone()", "_last)"))  # not a view of what does not require grad
    return f"{name} = {text}" + (
        ".requires_grad_()" if leaf and m.chance(rg) and not m.depth else ""
    )


@line(5)
def unary(m: Maker) -> str | None:
    x = m.pick()
    if not x:
        return None
    kind = m.r.choice(UNARY)
    if kind == "sort_" and has_ties(m.value(x)):
        return None
    text = FORMS.get(kind, "{}." + kind + "()").replace("{d}", str(dims(m, m.value(x).shape)))
    return f"{m.fresh()} = {text.replace('{}', x)}"


@line(6)
def binary(m: Maker) -> str | None:
    x = m.pick()
    if not x:
        return None
    y = m.operand(tuple(m.value(x).shape))
    kind = m.one(
        "+",
        "-",
        "*",
        "*",
        "*",
        "/",
        "maximum",
        "where",
        "atan2",
        "lerp",
        "addcmul",
        "rsub",
        "%",
        "hypot",
    )
    new = m.fresh()
    if kind in ("maximum", "atan2", "hypot", "%", "where") and m.value(x).is_complex():
        kind = "*"
    if not kind[0].isalpha():
        return f"{new} = {x} {kind} {y}" if m.chance(0.8) else f"{new} = {y} {kind} {x}"
    if kind == "where":
        return f"{new} = torch.where({x} > 0, {x}, {y})"
    if kind == "lerp":
        return f"{new} = {x}.lerp({m.operand(tuple(m.value(x).shape), exact=True)}, 0.3)"
    if kind == "addcmul":
        return (
            f"{new} = {x}.addcmul({m.operand(tuple(m.value(x).shape), exact=True)}, {x}, value=2)"
        )
    if kind == "rsub":
        return f"{new} = 1 - {x}"
    return f"{new} = torch.{kind}({x}, {m.operand(tuple(m.value(x).shape), exact=True)})"


@line(2)
def product(m: Maker) -> str | None:
    x = m.pick(lambda t: 0 < t.ndim < 4)
    if not x:
        return None
    t, new = m.value(x), m.fresh()
    n = t.shape[-1]
    match m.r.randrange(6):
        case 0:
            return f"{new} = {x} @ {m.operand((n, m.r.choice((1, 2, 3))), t.dtype, True)}"
        case 1:
            return f"{new} = {x} @ {m.operand((n,), t.dtype, True)}"
        case 2:
            return f"{new} = F.linear({x}, {m.operand((2, n), t.dtype, True)}, {m.operand((2,), t.dtype, True)})"
        case 3 if t.ndim == 2:
            return f"{new} = torch.addmm({m.operand((2,), t.dtype, True)}, {x}, {m.operand((n, 2), t.dtype, True)})"
        case 4:
            return f"{new} = torch.einsum('...i,...i->...', {x}, {x})"
    return f"{new} = {x} @ {x}.mT" if t.ndim > 1 else f"{new} = torch.outer({x}, {x})"


@line(3)
def reduction(m: Maker) -> str | None:
    x = m.pick()
    if not x:
        return None
    kind, shape, new = m.r.choice(REDUCTIONS), m.value(x).shape, m.fresh()
    dim = dims(m, shape)
    if kind == "median" and has_ties(m.value(x)):
        return None
    if kind in ("cumsum", "logsumexp"):
        return f"{new} = {x}.{kind}({dim})"
    if kind in ("max", "min", "median"):
        return f"{new} = {x}.{kind}()" if m.chance(0.5) else f"{new} = {x}.{kind}({dim})[0]"
    if kind == "aminmax":
        return f"{new}, {m.fresh()} = {x}.aminmax(dim={dim})"
    if m.chance(0.4):
        return f"{new} = {x}.{kind}()"
    return f"{new} = {x}.{kind}(dim={dim}{', keepdim=True' if m.chance(0.3) else ''})"


@line(2)
def joined(m: Maker) -> str | None:
    x = m.pick()
    if not x:
        return None
    shape, new = m.value(x).shape, m.fresh()
    y = m.operand(tuple(shape), m.value(x).dtype, exact=True)
    dim = dims(m, shape)
    return f"{new} = " + m.one(
        f"torch.cat([{x}, {y}], {dim})", f"torch.stack([{x}, {y}], {dim})", f"torch.hstack([{y}, {x}])",
        f"sum([{x}, {y}])", f"torch.cat([{x}, {x}])", f"{x}.repeat(2{', 1' * (len(shape) - 1)})",
        f"torch.broadcast_tensors({x}, {y})[0]", f"{x}.new_zeros(2)", f"torch.meshgrid({x}, {y}, indexing='ij')[1]",
    )  # fmt: skip


@line(1.5)
def moved(m: Maker) -> str | None:
    """gather, scatter and their kin."""
    x = m.pick(lambda t: t.ndim > 0 and t.shape[0] > 0 and t.numel() > 0)
    if not x:
        return None
    t, new = m.value(x), m.fresh()
    n, rest = t.shape[0], tuple(t.shape[1:])
    i = [m.r.randrange(n) for _ in range(2)]
    y = m.operand((2, *rest), t.dtype, exact=True)
    index = f"torch.tensor({i})"
    own = "_" if m.chance(0.4) and not overlaps(t) else ""
    left = "" if own and m.chance(0.5) else f"{new} = "
    calls = [
        f"{x}.index_add{own}(0, {index}, {y})", f"{x}.index_copy{own}(0, torch.tensor([{i[0]}]), {y}[:1])",
        f"{x}.index_fill{own}(0, {index}, {m.number()})", f"{x}.masked_fill{own}({x} > 0, {m.number()})",
        f"{x}.index_put{own}(({index},), {y}, accumulate={m.chance(0.5)})",
        f"{x}.masked_scatter{own}({x} > 0, {m.fresh_tensor((t.numel(),), t.dtype)})",
    ]  # fmt: skip
    if not own:
        calls += [
            f"{x}.index_select(0, {index})", f"{x}.take({index})", f"{x}.masked_select({x} > 0)",
            f"{x}.select_scatter({y}[0], 0, {i[0]})", f"{x}.slice_scatter({y}[:1], 0, {i[0]}, {i[0] + 1})",
            f"{x}.repeat_interleave(2, 0)", f"F.pad({x}, (1, 0), value=0.5)", f"{x}.topk(1, 0)[0]", f"{x}.diff(dim=0)",
        ]  # fmt: skip
    if t.ndim == 1:
        calls += [
            f"{x}.scatter{own}(0, {index}, {y})", f"{x}.scatter_add{own}(0, {index}, {y})",
            f"{x}.scatter{own}(0, torch.tensor([{i[0]}]), {m.number()})",
            f"{x}.scatter_reduce{own}(0, {index}, {y}, '{m.words('sum amax mean')}')",
        ]  # fmt: skip
        if not own:
            calls += [f"{x}.gather(0, {index})", f"torch.diag({x})", f"torch.diag_embed({x})"]
    call = m.r.choice(calls)
    if own and meets(m, t, call[len(x) :], x):
        return None
    if ".topk" in call and has_ties(t):
        return None
    return left + call


# -- views -------------------------------------------------------------------------------------------------------


def view_of(m: Maker, x: str, t: torch.Tensor) -> str:
    """Text of a view of `x`, whose value is like `t`."""
    shape, n = tuple(t.shape), t.ndim
    d = dims(m, shape)
    size = shape[d] if n else 1
    forms = [
        f"{x}.detach()", f"{x}.detach()" if m.depth else f"{x}.data", f"{x}.view(-1)",
        f"{x}.reshape(-1)", f"{x}.unsqueeze({d})", f"{x}.squeeze()",
        f"{x}.view({x}.shape)", f"{x}[...]", f"{x}[None]", f"{x}.view_as({x})",
        f"{x}.expand(2, {', '.join(['-1'] * n)})",
        f"{x}.flatten()", f"{x}.mT" if n > 1 else f"{x}.T" if n < 3 else f"{x}.movedim(0, -1)", f"{x}.ravel()",
        f"{x}.contiguous()", f"{x}.expand_as({x})", f"{x}.to({x}.dtype)", f"torch.atleast_2d({x})",
    ]  # fmt: skip
    if n:
        start = m.r.randrange(size) if size else 0
        forms += [
            f"{x}.select({d}, {start})",
            f"{x}[{start}]",
            f"{x}.narrow({d}, {start}, {max(size - start, 0)})",
        ] * 2
        forms += [
            f"{x}[{start}:]", f"{x}[..., ::2]", f"{x}.squeeze({d})", f"{x}.unbind({d})[{start}]",
            f"{x}.chunk(2, {d})[0]", f"{x}.split(1, {d})[{start}]", f"{x}.tensor_split(2, {d})[-1]",
            f"{x}.unflatten({d}, (-1, 1))", f"{x}.unfold({d}, {min(2, size)}, 1)", f"{x}[..., :1]",
        ]  # fmt: skip
    if n > 1:
        e = dims(m, shape)
        order = m.r.sample(range(n), n)
        forms += [f"{x}.transpose({d}, {e})", f"{x}.permute({order})", f"{x}.movedim({d}, {e})"] * 2
        forms += [
            f"{x}.diagonal()",
            f"{x}.flatten(0, 1)",
            f"{x}.swapaxes(0, -1)",
            f"{x}.diagonal({m.one(-1, 1)})",
        ]
    if t.is_complex():
        forms += [f"{x}.real", f"{x}.imag", f"torch.view_as_real({x})"] * 2
    elif n and size == 2 and d in (-1, n - 1):
        forms += [f"torch.view_as_complex({x})"]
    if t.numel() > 1 and t.is_contiguous() and m.chance(0.3):
        wanted = m.r.choice([(2,), (t.numel() // 2,), (2, 1), (1, 2)])
        strides = tuple(m.r.choice((0, 1, 1, 2)) if m.chance(0.2) else 1 for _ in wanted)
        offset = m.one("", ", 1", ", 0")
        forms += [f"{x}.as_strided({wanted}, {strides}{offset})"] * 5
    return m.r.choice(forms)


@line(8)
def view(m: Maker) -> str | None:
    x = m.pick()
    if not x:
        return None
    t, new = m.value(x), m.fresh()
    if t.ndim and m.chance(0.08):
        d, y = dims(m, t.shape), m.fresh()
        if t.shape[d] == 2:
            return f"{new}, {y} = {x}." + m.one(f"unbind({d})", f"chunk(2, {d})", f"split(1, {d})")
    text = view_of(m, x, t)
    return f"{new} = {text}"


def index(m: Maker, t: torch.Tensor) -> str:
    """Text between the brackets of x[...]."""
    parts: list[str] = []
    for n in t.shape:
        k = m.r.randrange(n) if n else 0
        parts.append(
            m.one(
                ":",
                ":",
                str(k),
                str(k),
                f"{k}:",
                f":{k + 1}",
                "::2",
                "-1",
                f"[{k}]",
                f"[{k}, {k}]",
                f"torch.tensor([{k}, 0])",
                f"torch.tensor({k})",
                f"torch.tensor([[{k}]])",
                f"torch.tensor({[m.chance(0.6) for _ in range(n)]})",
                "-2:",
                "0",
            )
        )
        if m.chance(0.08):
            parts.append("None")
        if m.chance(0.3):
            if m.chance(0.3) and len(parts) < t.ndim:
                parts.append("...")
            break
    return ", ".join(parts) or m.one("...", "None", "()", "True")


@line(4)
def indexed(m: Maker) -> str | None:
    x = m.pick()
    if not x:
        return None
    if m.chance(0.15):
        return f"{m.fresh()} = {x}[{x} > {m.one(0, 0.5)}]"
    return f"{m.fresh()} = {x}[{index(m, m.value(x))}]"


# -- in place ----------------------------------------------------------------------------------------------------


def expanded(t: torch.Tensor) -> bool:
    """Whether elements share a place in the way that most in-place functions refuse."""
    return any(n > 1 and not step for n, step in zip(t.shape, t.stride(), strict=True))


def written(m: Maker, refused: bool = False) -> str | None:
    """A variable that may be written to; rarely an expanded one, where `refused`: that is an error."""
    return m.pick(lambda t: not overlaps(t) or (refused and expanded(t) and m.chance(0.2)))


def target(m: Maker) -> tuple[str, torch.Tensor] | None:
    """Text of what is written to: a variable or a view of one; and its value."""
    x = written(m)
    if not x:
        return None
    t, text = m.value(x), x
    while m.chance(0.3):
        text = view_of(m, text, t)
        try:
            with torch.no_grad():
                t = eval(text, dict(m.names))
        except Exception:
            return None
    return None if overlaps(t) or t.dtype == torch.bool else (text, t)


def meets(m: Maker, written: torch.Tensor, text: str, itself: str) -> bool:
    """Whether `text` names a tensor in the memory that is written: the result is undefined, or PyTorch's tangent wrong.

    Only `itself`, the very tensor that is written, may be an operand, and that not where there may be tangents.
    """
    place = place_of(written)
    for name in re.findall(r"\bx\d+|\bz\d+|\bd\d+|\bg\d+", text):
        value = m.names.get(name)
        if (
            isinstance(value, torch.Tensor)
            and place_of(value) == place
            and (m.depth or name != itself)
        ):
            return True
    return False


@line(7)
def in_place(m: Maker) -> str | None:
    found = target(m)
    if not found:
        return None
    text, t = found
    shape = tuple(t.shape)
    other = m.operand(shape, t.dtype)
    tensor = m.operand(shape, t.dtype, exact=True)
    d = dims(m, shape)
    scalar = m.fresh_tensor((), t.dtype)
    calls = [
        f"mul_({other})",
        f"add_({other})",
        f"sub_({other})",
        f"copy_({other if 'D(' in other else tensor})",
    ] * 2
    calls += [
        f"div_({m.one(2, 4.0, tensor)})",
        f"{m.r.choice(IN_PLACE)}()",
        f"{m.r.choice(IN_PLACE)}()",
    ]
    calls += [
        f"fill_({m.number()})", f"fill_({scalar})", "zero_()", f"pow_({m.one(2, 3, 2.0)})", "clamp_(-0.5, 0.5)",
        f"clamp_(min={m.number()})", f"addcmul_({tensor}, {tensor}, value=0.5)", f"lerp_({tensor}, 0.3)",
        f"masked_fill_({text} > 0, {m.one(m.number(), scalar)})", f"cumsum_({d})", f"copysign_({tensor})",
        f"add_({other}, alpha=2)", f"addcdiv_({tensor}, {tensor}.abs() + 1)", f"fmod_({m.one(2, 1.5)})",
        f"maximum({tensor})", "neg_()" if t.is_complex() else f"lt_({m.number()})",
    ]  # fmt: skip
    if len(shape) == 2:
        calls += [
            f"addmm_({m.operand((shape[0], 2), t.dtype, True)}, {m.operand((2, shape[1]), t.dtype, True)})"
        ]
        calls += ["fill_diagonal_(2)"]
    call = m.r.choice(calls)
    if meets(m, t, call, text):
        return None
    call = f"{text}.{call}"
    if m.chance(0.1):
        form = m.words(
            "relu leaky_relu elu hardtanh selu silu celu rrelu relu6 hardswish mish hardsigmoid"
        )
        call = f"F.{form}({text}, inplace=True)"
    return call if m.chance(0.75) else f"{m.fresh()} = {call}"


@line(5)
def assigned(m: Maker) -> str | None:
    x = written(m)
    if not x:
        return None
    t = m.value(x)
    place = index(m, t) if m.chance(0.85) else f"{x} > 0"
    if m.chance(0.4):
        value = str(m.number())
    elif m.chance(0.3):
        value = m.fresh_tensor((), t.dtype, 0.5)
    else:
        try:
            with torch.no_grad():
                shape = tuple(eval(f"{x}[{place}]", dict(m.names)).shape)
        except Exception:
            return None
        value = m.operand(shape, t.dtype)
    if meets(m, t, value, ""):
        return None
    sign = m.one("=", "=", "=", "*=", "+=", "-=", "/=")
    return f"{x}[{place}] {sign} {value}"


@line(2.5)
def augmented(m: Maker) -> str | None:
    x = written(m, refused=True)
    if not x:
        return None
    sign = m.one("*=", "+=", "-=", "/=", "*=", "**=", "%=")
    value = (
        str(m.one(2, 3, 0.5))
        if sign in ("**=", "%=", "//=")
        else m.operand(tuple(m.value(x).shape))
    )
    if meets(m, m.value(x), value, x):
        return None
    return f"{x} {sign} {value}"


@line(1.2)
def geometry(m: Maker) -> str | None:
    """In-place changes of shape, and of what is recorded."""
    x = m.pick()
    if not x:
        return None
    n = m.value(x).ndim
    d = dims(m, m.value(x).shape)
    return f"{x}." + m.one(
        "t_()", f"transpose_(0, {max(n - 1, 0)})", f"unsqueeze_({d})", "squeeze_()", f"squeeze_({d})", "detach_()",
        "detach_()" if m.depth else "requires_grad_()", "requires_grad_(False)", "detach_()",
    )  # fmt: skip


@line(1.5, inside=False)
def out_argument(m: Maker) -> str | None:
    x = m.pick()
    if not x:
        return None
    other = m.operand(tuple(m.value(x).shape), exact=True)
    kind = m.one(f"mul({x}, {other}", f"add({x}, {other}", f"sin({x}", f"sum({x}, dim=0", f"exp({x}", f"neg({x}",
                 f"cat([{x}, {x}]", f"clamp({x}, 0, 1", f"matmul({x}, {x}", f"cumsum({x}, 0")  # fmt: skip
    try:
        with torch.no_grad():
            result = eval(f"torch.{kind})", dict(m.names))
    except Exception:
        return None
    place = place_of(m.value(x))
    y = m.pick(
        lambda t: t.shape == result.shape and t.dtype == result.dtype
        and not overlaps(t) and place_of(t) != place
    )  # fmt: skip
    into = m.one(y, y, y, f"{y}.detach()") if y else f"torch.empty(0, dtype={result.dtype})"
    left = f"{m.fresh()} = " if m.chance(0.5) else ""
    return f"{left}torch.{kind}, out={into})"


@line(1)
def cast(m: Maker) -> str | None:
    x = m.pick()
    if not x:
        return None
    form = m.one("float()", "double()", "to(torch.complex128)", "long()", "to(torch.float32)", "bool()", "type_as(x1)",
                 "double()", "double()", "to('cpu')", "clone()", "numpy()", "tolist()")  # fmt: skip
    if form in ("numpy()", "tolist()"):
        return f"log(torch.tensor({x}.{form}))"
    return f"{m.fresh()} = {x}.{form}"


@line(0.7, inside=False)
def copied(m: Maker) -> str | None:
    x = m.pick()
    if not x:
        return None
    if m.chance(0.25) and len(m.tensors()) > 1:
        y = m.pick()
        return f"{m.fresh()}, {m.fresh()} = copy.deepcopy(({x}, {y}))"
    return f"{m.fresh()} = " + m.one(f"copy.deepcopy({x})", f"pickle.loads(pickle.dumps({x}))", f"copy.copy({x})",
                                    f"copy.deepcopy({x}.detach())", f"{x}.detach().clone()")  # fmt: skip
