"""Single ops on 16 elements, forward and backward: where the cost of an op comes from.

An op is a formula over leaves of shape [4, 4] with values between 0.5 and 1.5.
"""

import numpy as np
from measure import Workload

OPS = {
    # pointwise
    "add": lambda torch, a, b: a + b,
    "add scalar": lambda torch, a: a + 1.5,
    "sub": lambda torch, a, b: a - b,
    "mul": lambda torch, a, b: a * b,
    "div": lambda torch, a, b: a / b,
    "neg": lambda torch, a: -a,
    "abs": lambda torch, a: a.abs(),
    "pow 2": lambda torch, a: a**2,
    "exp": lambda torch, a: a.exp(),
    "log": lambda torch, a: a.log(),
    "sqrt": lambda torch, a: a.sqrt(),
    "sin": lambda torch, a: a.sin(),
    "tanh": lambda torch, a: a.tanh(),
    "sigmoid": lambda torch, a: a.sigmoid(),
    "relu": lambda torch, a: torch.relu(a),
    "gelu": lambda torch, a: torch.nn.functional.gelu(a),
    "clamp": lambda torch, a: a.clamp(0.7, 1.3),
    "maximum": lambda torch, a, b: torch.maximum(a, b),
    "where": lambda torch, a, b: torch.where(a > 1.0, a, b),
    "broadcast mul": lambda torch, a, b: a * b[0],
    # reductions
    "sum": lambda torch, a: a.sum(),
    "sum dim": lambda torch, a: a.sum(dim=1),
    "mean": lambda torch, a: a.mean(),
    "amax dim": lambda torch, a: a.amax(dim=1),
    "var": lambda torch, a: a.var(),
    "logsumexp": lambda torch, a: a.logsumexp(dim=1),
    "cumsum": lambda torch, a: a.cumsum(dim=1),
    # shapes and indices
    "reshape": lambda torch, a: a.reshape(16),
    "transpose": lambda torch, a: a.transpose(0, 1),
    "expand": lambda torch, a: a.unsqueeze(0).expand(2, 4, 4),
    "index row": lambda torch, a: a[1],
    "slice": lambda torch, a: a[1:3, :2],
    "cat": lambda torch, a, b: torch.cat([a, b]),
    "stack": lambda torch, a, b: torch.stack([a, b]),
    "chunk": lambda torch, a: a.chunk(2)[1],
    "clone": lambda torch, a: a.clone(),
    # products and layers
    "matmul": lambda torch, a, b: a @ b,
    "linear": lambda torch, a, b, c: torch.nn.functional.linear(a, b, c[0]),
    "softmax": lambda torch, a: torch.softmax(a, dim=-1),
    "log_softmax": lambda torch, a: torch.log_softmax(a, dim=-1),
    "layer_norm": lambda torch, a, b, c: torch.nn.functional.layer_norm(a, (4,), b[0], c[0]),
    "mse_loss": lambda torch, a, b: torch.nn.functional.mse_loss(a, b),
}


def build(formula):
    count = formula.__code__.co_argcount - 1

    def prepare(torch, device):
        random = np.random.default_rng(0)
        arrays = random.uniform(0.5, 1.5, (count, 4, 4)).astype(np.float32)
        leaves = [torch.tensor(array, device=device, requires_grad=True) for array in arrays]
        shape = formula(torch, *leaves).shape
        gradient = random.uniform(0.5, 1.5, tuple(shape)).astype(np.float32)
        gradient = torch.tensor(gradient, device=device)

        def step():
            for leaf in leaves:
                leaf.grad = None
            result = formula(torch, *leaves)
            result.backward(gradient)
            return [result, *(leaf.grad for leaf in leaves)]

        return step

    return prepare


WORKLOADS = [Workload(name, build(formula), unit="us") for name, formula in OPS.items()]
