"""How arguments are drawn for functions that are like no others."""

from __future__ import annotations

import torch
from fuzz_draw import DTYPES, SIZES, Draw, optional


def other(d: Draw, name: str) -> tuple[list, dict]:
    kw: dict = {}
    r = d.r
    match name:
        case "clamp":
            x = d.tensor()
            low, high = (None if d.chance(0.3) else d.operand(tuple(x.shape)) if d.chance(0.3) else d.number()
                         for _ in range(2))  # fmt: skip
            return ([x, low, high], kw) if d.chance(0.6) else ([x], {"min": low, "max": high})
        case "clamp_min":
            x = d.tensor()
            return [x, d.operand(tuple(x.shape))], kw
        case "matmul" | "mm" | "bmm" | "mv" | "dot" | "vdot" | "inner":
            n, k, m, b = (r.choice(SIZES) for _ in range(4))
            forms = {
                "matmul": [((k,), (k,)), ((n, k), (k,)), ((k,), (k, m)), ((n, k), (k, m)), ((b, n, k), (k, m)),
                           ((b, n, k), (b, k, m)), ((b, 1, n, k), (2, k, m)), ((n, k), (b, k, m)), ((b, n, k), (k,))],
                "mm": [((n, k), (k, m))], "bmm": [((b, n, k), (b, k, m))], "mv": [((n, k), (k,))],
                "dot": [((k,), (k,))], "vdot": [((k,), (k,))], "inner": [((n, k), (m, k)), ((k,), (k,))],
            }  # fmt: skip
            p, q = r.choice(forms[name]) if d.chance(0.93) else (d.shape(), d.shape())
            dtype = d.dtype
            return [d.tensor(p, dtype), d.tensor(q, dtype if d.chance(0.93) else None)], kw
        case "outer":
            return [d.tensor(d.shape(1, 1)), d.tensor(d.shape(1, 1))], kw
        case "kron":
            return [d.tensor(d.shape(0, 2)), d.tensor(d.shape(0, 2))], kw
        case "cross":
            x = d.tensor((*d.shape(0, 2), 3))
            return [x, d.tensor(tuple(x.shape), x.dtype)], {"dim": -1}
        case "dist":
            x = d.tensor()
            return [x, d.partner(tuple(x.shape)), r.choice([0, 1, 2, 3.0])], kw
        case "tensordot":
            n, k, m = (r.choice(SIZES) for _ in range(3))
            return [d.tensor((n, k), d.dtype), d.tensor((k, m), d.dtype)], {"dims": 1}
        case "einsum":
            n, k, m = (r.choice(SIZES) for _ in range(3))
            text = r.choice(["ij,jk->ik", "ij,jk", "ij,jk->", "ij,jk->ijk"])
            return [text, d.tensor((n, k), d.dtype), d.tensor((k, m), d.dtype)], kw
        case "cat" | "stack" | "vstack" | "hstack" | "block_diag":
            x = d.tensor(d.shape(0 if d.chance(0.3) else 1, 3))
            rest = [d.tensor(tuple(x.shape)) for _ in range(r.randint(0, 2))]
            if d.chance(0.1):
                rest.append(d.tensor((0,)))
            if name == "block_diag":
                return [x, *rest], kw
            if name in ("vstack", "hstack") or d.chance(0.3):
                return [[x, *rest]], kw
            dim = d.dim(x.ndim)
            return ([[x, *rest], dim], kw) if d.chance(0.5) else ([(x, *rest)], {"dim": dim})
        case "reshape" | "view":
            x = d.tensor()
            shape = list(x.shape)
            r.shuffle(shape)
            if d.chance(0.5):
                shape = [x.numel()]
            if d.chance(0.4) and shape:
                shape[r.randrange(len(shape))] = -1
            if d.chance(0.3):
                shape.insert(r.randint(0, len(shape)), 1)
            if name == "view" and d.chance(0.2):
                return [x, d.r.choice(DTYPES)], kw
            return [x, tuple(shape)], kw
        case "expand" | "broadcast_to" | "expand_as" | "view_as":
            x = d.tensor(tuple(r.choice((1, 1, 3)) for _ in range(r.randint(0, 3))))
            shape = [n if n > 1 or d.chance(0.3) else r.choice([2, 3, 0, -1]) for n in x.shape]
            if d.chance(0.4):
                shape = [2, *shape]
            if name.endswith("_as"):
                return [x, d.tensor(tuple(max(n, 0) for n in shape))], kw
            return [x, tuple(shape)], kw
        case "permute":
            x = d.tensor()
            order = list(range(x.ndim))
            r.shuffle(order)
            return [x, tuple(i - x.ndim if d.chance(0.3) else i for i in order)], kw
        case "repeat" | "tile":
            x = d.tensor(d.shape(0, 3))
            n = r.randint(0, 4)
            return [x, tuple(r.choice([0, 1, 2]) for _ in range(n))], kw
        case "masked_fill":
            x = d.tensor()
            mask = (
                d.partner(tuple(x.shape)).to(torch.bool if d.chance(0.9) else torch.uint8).detach()
            )
            return [x, mask, d.number() if d.chance(0.8) else d.tensor(())], kw
        case "masked_select":
            x = d.tensor()
            return [x, d.partner(tuple(x.shape)).detach().to(torch.bool)], kw
        case "masked_scatter":
            x = d.tensor()
            return [
                x,
                d.partner(tuple(x.shape)).detach().to(torch.bool),
                d.tensor(tuple(x.shape), x.dtype),
            ], kw
        case "where":
            x = d.tensor()
            mask = d.partner(tuple(x.shape)).detach().to(torch.bool)
            return [mask, x, d.operand(tuple(x.shape))], kw
        case "to" | "type":
            return [d.tensor(), d.r.choice(DTYPES)], kw
        case "float" | "int" | "contiguous" | "bool":
            return [d.tensor()], kw
        case "item":
            return [d.tensor(r.choice([(), (1,), (1, 1), (2,)]))], kw
        case "full_like":
            return [d.tensor(), d.number()], {"dtype": d.r.choice(DTYPES)} if d.chance(0.3) else kw
        case "zeros_like":
            return [d.tensor()], {"dtype": d.r.choice(DTYPES)} if d.chance(0.3) else kw
        case "new_zeros":
            return [d.tensor(), d.shape()], kw
        case "addmm" | "baddbmm":
            n, k, m, b = (r.choice(SIZES) for _ in range(4))
            lead = (b,) if name == "baddbmm" else ()
            first = r.choice([(*lead, n, m), (m,), (1, m), ()])
            optional(d, kw, "beta", d.number)
            optional(d, kw, "alpha", d.number)
            return [
                d.tensor(first, d.dtype),
                d.tensor((*lead, n, k), d.dtype),
                d.tensor((*lead, k, m), d.dtype),
            ], kw
        case "addcmul" | "addcdiv":
            x = d.tensor()
            optional(d, kw, "value", d.number)
            return [x, d.partner(tuple(x.shape)), d.partner(tuple(x.shape))], kw
        case "lerp":
            x = d.tensor(None, d.dtype)
            end = d.tensor(tuple(x.shape), d.dtype)
            return [
                x,
                end,
                r.choice([0.3, 0.8]) if d.chance(0.5) else d.tensor(tuple(x.shape), d.dtype),
            ], kw
        case "take":
            x = d.tensor()
            return [x, d.indices(d.shape(0, 2), x.numel())], kw
        case "nn.functional.linear":
            k, m = r.choice(SIZES), r.choice(SIZES)
            args = [d.tensor((*d.shape(0, 2), k), d.dtype), d.tensor((m, k), d.dtype)]
            return args + ([d.tensor((m,), d.dtype)] if d.chance(0.5) else []), kw
        case "nn.functional.mse_loss" | "nn.functional.l1_loss":
            x = d.tensor()
            optional(d, kw, "reduction", lambda: r.choice(["none", "mean", "sum"]))
            return [x, d.tensor(tuple(x.shape))], kw
        case "nn.functional.cross_entropy" | "nn.functional.nll_loss":
            n, c = r.choice([0, 1, 3]), r.choice([1, 3])
            rest = d.shape(1, 2) if d.chance(0.3) else ()
            optional(d, kw, "reduction", lambda: r.choice(["none", "mean", "sum"]))
            if name.endswith("entropy"):
                optional(d, kw, "label_smoothing", lambda: 0.1)
            optional(d, kw, "ignore_index", lambda: 0, 0.2)
            return [d.tensor((n, c, *rest), d.dtype), d.indices((n, *rest), c)], kw
        case "nn.functional.layer_norm":
            x = d.tensor(d.shape(1, 3))
            return [x, tuple(x.shape[r.randint(0, x.ndim - 1) :])], kw
        case "nn.functional.batch_norm":
            x = d.tensor(d.shape(2, 4), d.dtype)
            return [x, None, None], {"training": True}
        case "nn.functional.embedding":
            w = d.tensor((3, r.choice(SIZES)), d.dtype)
            return [d.indices(d.shape(0, 2), 3), w], kw
        case "nn.functional.one_hot":
            return [d.indices(d.shape(0, 2), 3)], {"num_classes": 3} if d.chance(0.6) else kw
        case "nn.functional.dropout":
            return [d.tensor()], {"p": r.choice([0.0, 1.0])}
        case "nn.functional.pad":
            x = d.tensor(d.shape(1, 3))
            pads = [r.randint(-1, 2) for _ in range(2 * r.randint(1, x.ndim))]
            return [x, pads], {"value": d.number()} if d.chance(0.4) else kw
        case "getitem" | "setitem" | "index_put":
            x = d.tensor(d.shape(1, 4))
            parts: list = []
            for n in x.shape[: r.randint(1, x.ndim)]:
                kind = r.random()
                if kind < 0.3:
                    parts.append(r.randint(-n, n - 1) if n else slice(None))
                elif kind < 0.6:
                    parts.append(
                        slice(
                            r.randint(-n, n) if d.chance(0.5) else None,
                            r.randint(0, n + 1),
                            r.choice([None, 1, 2]),
                        )
                    )
                elif kind < 0.8:
                    parts.append(d.indices(r.choice([(2,), (), (1,), (2, 1)]), n).long())
                elif kind < 0.9:
                    parts.append(torch.as_tensor(d.np.random(n) > 0.5))
                else:
                    parts.append(None)
            if name == "index_put":
                parts = [d.indices((2,), n).long() for n in x.shape]
                return [x, tuple(parts), d.tensor(r.choice([(2,), ()]), x.dtype)], {
                    "accumulate": d.chance(0.4)
                }
            key = tuple(parts) if len(parts) != 1 or d.chance(0.5) else parts[0]
            if name == "getitem":
                return [x, key], kw
            return [x, key, d.number() if d.chance(0.5) else d.tensor(())], kw
        case "unique":
            optional(d, kw, "return_inverse", lambda: True)
            optional(d, kw, "return_counts", lambda: True)
            return [d.tensor()], kw
        case "bincount":
            return [d.indices(d.shape(1, 1), 4)], {"minlength": 6} if d.chance(0.5) else kw
        case "meshgrid":
            kw = {"indexing": r.choice(["ij", "xy"])}
            dtype = d.dtype
            return [d.tensor(d.shape(0, 1), dtype), d.tensor(d.shape(1, 1), dtype)], kw
        case "cartesian_prod":
            return [d.tensor(d.shape(1, 1), d.dtype) for _ in range(r.randint(1, 3))], kw
        case "broadcast_tensors":
            x = d.tensor()
            return [x, d.partner(tuple(x.shape))], kw
        case "copy_":
            x = d.tensor()
            return [x, d.operand(tuple(x.shape))], kw
        case "fill_":
            return [d.tensor(), d.number() if d.chance(0.8) else d.tensor(())], kw
        case "zero_":
            return [d.tensor()], kw
        case "searchsorted" | "bucketize":
            edges = torch.sort(d.tensor((3,), torch.float64).detach().nan_to_num())[0]
            x = d.tensor(d.shape(0, 2), torch.float64).detach().nan_to_num()
            optional(d, kw, "right", lambda: d.chance(0.5))
            optional(d, kw, "out_int32", lambda: d.chance(0.5))
            return ([edges, x] if name == "searchsorted" else [x, edges]), kw
        case "isin":
            return [d.tensor(), d.tensor(d.shape(0, 1)) if d.chance(0.8) else d.number()], kw
        case "linalg.norm" | "linalg.vector_norm":
            x = d.tensor(d.shape(0, 3))
            kw["ord"] = (
                r.choice([None, 1, 2, float("inf"), -1, 0])
                if name.endswith("g.norm")
                else r.choice([1, 2, 0, 3.0])
            )
            optional(d, kw, "dim", lambda: d.dims(x.ndim))
            optional(d, kw, "keepdim", lambda: True)
            return [x], {k: v for k, v in kw.items() if v is not None}
        case "linalg.det" | "linalg.inv" | "linalg.solve":
            n = r.choice([0, 1, 2, 3, 3, 4])
            lead = d.shape(0, 1)
            a = d.tensor((*lead, n, n), d.dtype)
            return ([a, d.tensor((*lead, n, 2), d.dtype)] if name.endswith("solve") else [a]), kw
        case "fft.fft" | "fft.rfft":
            x = d.tensor(d.shape(1, 3))
            optional(d, kw, "n", lambda: r.randint(1, 5))
            optional(d, kw, "dim", lambda: d.dim(x.ndim))
            optional(d, kw, "norm", lambda: r.choice(["ortho", "forward", "backward"]))
            return [x], kw
        case "arange":
            start, step = r.choice([0, 1, -2, 0.5]), r.choice([1, 2, 0.5, -1, 0])
            args = [
                [r.choice([3, 4.0, 0, -1])],
                [start, start + 3],
                [start, start + 3 * (step or 1), step],
            ]
            optional(d, kw, "dtype", lambda: d.r.choice(DTYPES))
            return r.choice(args), kw
        case "linspace":
            optional(d, kw, "dtype", lambda: d.r.choice(DTYPES))
            return [d.number(), d.number(), r.randint(0, 6)], kw
        case "full":
            optional(d, kw, "dtype", lambda: d.r.choice(DTYPES))
            return [d.shape(), d.number()], kw
        case "eye":
            optional(d, kw, "dtype", lambda: d.r.choice(DTYPES))
            return [r.randint(0, 3) for _ in range(r.randint(1, 2))], kw
        case "histc":
            return [d.tensor(None, r.choice(DTYPES[:4])).detach().nan_to_num(0, 1, -1)], {
                "bins": 4,
                "min": -1,
                "max": 2,
            }
        case "quantile":
            x = d.tensor(d.shape(1, 3), r.choice(DTYPES[:4]))
            return [x, 0.3 if d.chance(0.5) else torch.tensor([0.2, 0.5], dtype=x.dtype)], {
                "dim": d.dim(x.ndim)
            } if d.chance(0.6) else kw
        case "rot90":
            return [d.tensor(d.shape(2, 3)), r.randint(-2, 3), [0, 1]], kw
        case "cov":
            return [d.tensor(d.shape(1, 2))], kw
        case "trapezoid":
            return [d.tensor(d.shape(1, 3))], {"dx": 0.5} if d.chance(0.4) else kw
        case "cdist":
            k = r.choice(SIZES)
            return [
                d.tensor((r.choice(SIZES), k), d.dtype),
                d.tensor((r.choice(SIZES), k), d.dtype),
                r.choice([1.0, 2.0, float("inf")]),
            ], kw
        case "allclose":
            x = d.tensor(None, d.dtype)
            return [x, x.clone() if d.chance(0.5) else d.partner(tuple(x.shape)).to(d.dtype)], kw
    raise AssertionError(name)
