"""The same work written for JAX and for plain CuPy, which have APIs of their own.

Each entry is (library, build) of measure.Workload.others. Weights and inputs are those that gradlib makes on the CPU.
"""

from workloads import Source, chain, chain_inputs, gpt_model

import gradlib


def arrays(xp, tensors):
    return [xp.asarray(t.detach().numpy()) for t in tensors]


# -- 200 ops on 16 elements --------------------------------------------------------------------------------------------


def jax_chain(jax, device):
    inputs = arrays(jax.numpy, chain_inputs(gradlib, "cpu", False))
    return lambda: chain(*inputs)


def jax_chain_jit(jax, device):
    inputs = arrays(jax.numpy, chain_inputs(gradlib, "cpu", False))
    gradient = jax.jit(jax.grad(lambda *leaves: chain(*leaves).sum(), argnums=(0, 1, 2)))
    return lambda: gradient(*inputs)


def cupy_chain(cupy, device):
    inputs = arrays(cupy, chain_inputs(gradlib, "cpu", False))
    return lambda: chain(*inputs)


def cupy_chain_backward(cupy, device):
    """The gradients by hand: what the launches alone cost."""
    x, y, z = arrays(cupy, chain_inputs(gradlib, "cpu", False))

    def step():
        kept, out = [], z
        for _ in range(100):
            kept.append(out)
            out = out * y + x
        g = cupy.ones_like(out)
        gx, gy = g, g * kept[-1]
        for before in kept[-2::-1]:
            g = g * y
            gx, gy = gx + g, gy + g * before
        return [gx, gy, g * y]

    return step


CHAINS = {
    "chain-no-grad": {"jax": ("jax", jax_chain), "cupy": ("cupy", cupy_chain)},
    "chain-backward": {"jax.jit": ("jax", jax_chain_jit), "cupy": ("cupy", cupy_chain_backward)},
}


# -- MLP with SGD ------------------------------------------------------------------------------------------------------


def mlp(batch, hidden):
    """The step of workloads.mlp with SGD."""

    def prepared(xp):
        nn, source = gradlib.nn, Source(gradlib, "cpu")
        sizes = [(784, hidden), (hidden, hidden), (hidden, 10)]
        model = source.fill(nn.Sequential(*[nn.Linear(*size) for size in sizes]))
        inputs, targets = source.normal(batch, 784), source.integers(10, batch)
        return arrays(xp, model.parameters()), *arrays(xp, (inputs, targets))

    def jax_step(jax, device):
        jnp = jax.numpy
        parameters, x, y = prepared(jnp)

        def loss_of(parameters):
            h = x
            for i in range(0, 6, 2):
                h = h @ parameters[i].T + parameters[i + 1]
                h = jnp.maximum(h, 0) if i < 4 else h
            return -jnp.take_along_axis(jax.nn.log_softmax(h), y[:, None], 1).mean()

        @jax.jit
        def update(parameters):
            loss, grads = jax.value_and_grad(loss_of)(parameters)
            return loss, [p - 0.01 * g for p, g in zip(parameters, grads, strict=True)]

        def step():
            nonlocal parameters
            loss, parameters = update(parameters)
            return loss

        return step

    def cupy_step(cupy, device):
        parameters, x, y = prepared(cupy)
        return lambda: mlp_step_by_hand(cupy, parameters, x, y)

    return {"jax": ("jax", jax_step), "cupy": ("cupy", cupy_step)}


def mlp_step_by_hand(xp, parameters, x, y):
    """Forward, gradients and SGD's update, written out; changes `parameters`, returns the loss."""
    kept, h = [x], x
    for i in range(0, 6, 2):
        h = h @ parameters[i].T + parameters[i + 1]
        if i < 4:
            h = xp.maximum(h, 0)
            kept.append(h)
    h = h - h.max(1, keepdims=True)
    scores = h - xp.log(xp.exp(h).sum(1, keepdims=True))
    rows = xp.arange(len(y))
    g = xp.exp(scores)
    g[rows, y] -= 1
    g /= len(y)
    for i in (4, 2, 0):
        weight = parameters[i].copy()
        parameters[i] -= 0.01 * (g.T @ kept[i // 2])
        parameters[i + 1] -= 0.01 * g.sum(0)
        if i:
            g = (g @ weight) * (kept[i // 2] > 0)
    return -scores[rows, y].mean()


# -- GPT with AdamW ----------------------------------------------------------------------------------------------------


def gpt(sizes):
    """The step of workloads.gpt, compiled as a whole."""

    def jax_step(jax, device):
        jnp = jax.numpy
        source = Source(gradlib, "cpu")
        model = source.fill(gpt_model(gradlib, sizes))
        weights = {n: jnp.asarray(p.detach().numpy()) for n, p in model.named_parameters()}
        text = jnp.asarray(source.integers(sizes.symbols, sizes.batch, sizes.length + 1).numpy())
        zeros = {name: jnp.zeros_like(p) for name, p in weights.items()}
        state = (weights, zeros, zeros, 0.0)

        def loss_of(weights):
            scores = jax.nn.log_softmax(jax_gpt(jax, weights, text[:, :-1], sizes))
            return -jnp.take_along_axis(scores, text[:, 1:, None], 2).mean()

        @jax.jit
        def update(state):
            loss, grads = jax.value_and_grad(loss_of)(state[0])
            return loss, adamw(jax, state, grads)

        def step():
            nonlocal state
            loss, state = update(state)
            return loss

        return step

    return {"jax": ("jax", jax_step)}


def jax_gpt(jax, weights, text, sizes):
    """Scores [batch, length, symbols]; the names of the weights are those of workloads.gpt_model."""
    jnp = jax.numpy

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["symbol.weight"][text] + weights["place.weight"][: text.shape[1]]
    for i in range(sizes.layers):
        block = f"blocks.{i}."
        qkv = linear(norm(x, block + "norm1"), block + "qkv")
        qkv = qkv.reshape(*text.shape, 3, sizes.heads, sizes.width // sizes.heads)
        mixed = jax.nn.dot_product_attention(
            qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], is_causal=True
        )
        x = x + linear(mixed.reshape(x.shape), block + "project")
        up = linear(norm(x, block + "norm2"), block + "up")
        x = x + linear(jax.nn.gelu(up, approximate=False), block + "down")
    return linear(norm(x, "norm"), "head")


def adamw(jax, state, grads, lr=1e-4, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
    """The next (weights, first moments, second moments, steps); Loshchilov and Hutter, ICLR 2019, algorithm 2."""
    weights, first, second, steps = state
    mapped, (b1, b2), steps = jax.tree.map, betas, steps + 1
    first = mapped(lambda m, g: b1 * m + (1 - b1) * g, first, grads)
    second = mapped(lambda v, g: b2 * v + (1 - b2) * g * g, second, grads)
    correct = jax.numpy.sqrt(1 - b2**steps)

    def moved(p, m, v):
        return p * (1 - lr * decay) - lr / (1 - b1**steps) * m / (jax.numpy.sqrt(v) / correct + eps)

    return mapped(moved, weights, first, second), first, second, steps
