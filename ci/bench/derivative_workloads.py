"""Derivatives other than one gradient."""

from workloads import Source, workload


def smooth(torch, matrix, x):
    """A scalar of x whose second derivatives are all different."""
    return (torch.tanh(matrix @ x) * torch.sin(x)).sum()


@workload("hessian", goal=0.6)
def hessian(torch, device):
    source = Source(torch, device)
    matrix, x = source.normal(50, 50, scale=0.1), source.normal(50)
    return lambda: torch.autograd.functional.hessian(lambda x: smooth(torch, matrix, x), x)


@workload("hvp", goal=0.8)
def hvp(torch, device):
    source = Source(torch, device)
    x, v = source.normal(100_000, requires_grad=True), source.normal(100_000)

    def step():
        y = (torch.tanh(x) * x.roll(1) + x**3).sum()
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        return torch.autograd.grad((gradient * v).sum(), x)

    return step


def jacobian(torch, device, **settings):
    source = Source(torch, device)
    matrix, x = source.normal(64, 64, scale=0.1), source.normal(64)
    return lambda: torch.autograd.functional.jacobian(
        lambda x: torch.tanh(matrix @ x), x, **settings
    )


@workload("jacobian-rows", goal=0.5)
def jacobian_rows(torch, device):
    return jacobian(torch, device)


@workload("jacobian-vectorised", goal=0.4)
def jacobian_vectorised(torch, device):
    return jacobian(torch, device, vectorize=True)


@workload("gradients-batched", goal=0.4)
def batched_gradients(torch, device):
    source = Source(torch, device)
    matrix, x = source.normal(64, 64, scale=0.1), source.normal(64, requires_grad=True)
    rows = torch.eye(64, device=device)

    def step():
        return torch.autograd.grad(torch.tanh(matrix @ x), x, rows, is_grads_batched=True)

    return step


def samples(torch, device):
    """Two weights and 64 samples, for gradients of each sample by itself."""
    source = Source(torch, device)
    weights = source.weight(16, 16), source.weight(16, 1)
    return weights, source.normal(64, 16)


def sample_loss(torch, first, second, sample):
    return (torch.tanh(sample @ first) @ second).pow(2).sum()


@workload("per-sample-loop", goal=0.5)
def per_sample_loop(torch, device):
    weights, inputs = samples(torch, device)

    def step():
        grads = [torch.autograd.grad(sample_loss(torch, *weights, x), weights) for x in inputs]
        return [torch.stack(column) for column in zip(*grads, strict=True)]

    return step


@workload("per-sample-vmap", goal=0.4)
def per_sample_vmap(torch, device):
    weights, inputs = samples(torch, device)
    weights = [weight.detach() for weight in weights]

    def loss(first, second, sample):
        return sample_loss(torch, first, second, sample)

    gradient = torch.func.grad(loss, argnums=(0, 1))
    return lambda: torch.func.vmap(gradient, in_dims=(None, None, 0))(*weights, inputs)
