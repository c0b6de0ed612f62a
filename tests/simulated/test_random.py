"""Random numbers on CUDA devices: Philox words, seeds, states, streams and captures."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.cuda import philox
from gradlib.devices.numpy.namespace import backend as numpy_backend
from tests.simulated_cuda import machine

DRAWS = {
    "rand": lambda **kw: gl.rand(1000, device="cuda", **kw),
    "randn": lambda **kw: gl.randn(999, device="cuda", **kw),
    "randint": lambda **kw: gl.randint(3, 9, (50,), device="cuda", **kw),
    "randperm": lambda **kw: gl.randperm(20, device="cuda", **kw),
    "normal": lambda **kw: gl.normal(2.0, 0.5, (50,), device="cuda", **kw),
    "bernoulli": lambda **kw: gl.bernoulli(gl.full((50,), 0.3, device="cuda"), **kw),
    "uniform_": lambda **kw: gl.empty(50, device="cuda").uniform_(-1, 1, **kw),
    "normal_": lambda **kw: gl.empty(50, device="cuda").normal_(1, 2, **kw),
    "random_": lambda **kw: gl.empty(50, dtype=gl.int64, device="cuda").random_(0, 2**40, **kw),
    "exponential_": lambda **kw: gl.empty(50, device="cuda").exponential_(2.0, **kw),
    "geometric_": lambda **kw: gl.empty(50, device="cuda").geometric_(0.3, **kw),
    "cauchy_": lambda **kw: gl.empty(50, device="cuda").cauchy_(**kw),
    "log_normal_": lambda **kw: gl.empty(50, device="cuda").log_normal_(**kw),
    "poisson": lambda **kw: gl.poisson(gl.full((50,), 3.0, device="cuda"), **kw),
    "multinomial": lambda **kw: gl.multinomial(gl.ones(20, device="cuda"), 5, **kw),
}


def test_words_are_those_of_the_published_generator():
    state = np.zeros(2, np.uint64)
    assert philox.words(numpy_backend, state, 5)[:4].tolist() == [
        0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8,
    ]  # fmt: skip
    assert state.tolist() == [0, 2]


def test_words_are_the_same_on_host_and_device(cuda):
    for seed, counter in ((0, 0), (2**64 - 1, 2**33 + 7), (5, 3)):
        here = philox.words(numpy_backend, np.array([seed, counter], np.uint64), 41)
        state = cuda.asarray(np.array([seed, counter], np.uint64))
        there = philox.words(gl.tape.arrays.backend_for("cuda"), state, 41)
        assert (here == there.get()).all() and state.tolist() == [seed, counter + 11]


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_fixes_every_number(cuda, name):
    draw = DRAWS[name]
    gl.manual_seed(3)
    first, second = draw(), draw()
    gl.cuda.manual_seed(3)
    again = draw()
    assert first.is_cuda and again.tolist() == first.tolist() != second.tolist()
    generator = gl.Generator("cuda").manual_seed(3)
    assert draw(generator=generator).tolist() == first.tolist()
    with pytest.raises(
        RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"
    ):
        draw(generator=gl.Generator())


def test_distributions(cuda):
    n = 20000

    def moments(x):
        values = x.double().cpu().numpy()
        return float(values.mean()), float(values.std())

    empty = gl.empty(n, device="cuda", dtype=gl.float64)
    for x, mean, std in (
        (gl.rand(n, device="cuda"), 0.5, 12**-0.5), (gl.randn(n, device="cuda"), 0, 1),
        (gl.randn(n, device="cuda", dtype=gl.float64), 0, 1), (gl.randn(n, device="cuda", dtype=gl.float16), 0, 1),
        (empty.exponential_(2.0).clone(), 0.5, 0.5), (empty.geometric_(0.5).clone(), 2, 2**0.5),
        (empty.log_normal_(0, 0.5), np.exp(0.125), (np.expm1(0.25) * np.exp(0.25)) ** 0.5),
        (gl.randint(0, 10, (n,), device="cuda"), 4.5, 8.25**0.5),
        (gl.bernoulli(gl.full((n,), 0.3, device="cuda")), 0.3, 0.21**0.5),
    ):  # fmt: skip
        got = moments(x)
        assert got == pytest.approx((mean, std), abs=0.05), (got, mean, std)
    x = gl.rand(n, device="cuda")
    assert x.dtype is gl.float32 and x.min().item() >= 0 and x.max().item() < 1
    assert sorted(gl.randperm(50, device="cuda").tolist()) == list(range(50))
    assert gl.randn(3, device="cuda", dtype=gl.complex64).dtype is gl.complex64


def test_dropout_masks_are_drawn_on_the_device(cuda):
    x = gl.ones(1000, device="cuda", requires_grad=True)
    machine.log = []
    y = gl.nn.functional.dropout(x, 0.4)
    y.sum().backward()
    assert not any("host" in label for label in machine.log), "a mask went through the host"
    assert (x.grad == y.detach()).all().item() and 0.5 < (y > 0).float().mean().item() < 0.7
    for layer in (
        gl.nn.functional.alpha_dropout,
        gl.nn.functional.dropout2d,
        gl.nn.functional.rrelu,
    ):
        assert layer(gl.ones(2, 3, 4, 4, device="cuda"), training=True).is_cuda
    assert gl.nn.functional.gumbel_softmax(gl.ones(3, 4, device="cuda")).is_cuda


def test_states(cuda):
    state = gl.cuda.get_rng_state()
    assert state.dtype is gl.uint8 and state.numel() == 16 and not state.is_cuda
    first = gl.rand(5, device="cuda").tolist()
    gl.cuda.set_rng_state(state)
    assert gl.rand(5, device="cuda").tolist() == first
    with gl.random.fork_rng(devices=[0]):
        gl.rand(7, device="cuda")
    after = gl.rand(5, device="cuda").tolist()
    gl.cuda.set_rng_state(state)
    gl.rand(5, device="cuda")
    assert gl.rand(5, device="cuda").tolist() == after
    assert len(gl.cuda.get_rng_state_all()) == gl.cuda.device_count()
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        gl.cuda.set_rng_state(gl.zeros(5, dtype=gl.uint8))
    generator = gl.Generator("cuda").manual_seed(4)
    gl.rand(3, device="cuda", generator=generator)
    assert generator.get_offset() == 1 and generator.initial_seed() == 4
    copy = generator.clone_state()
    assert (
        gl.rand(3, device="cuda", generator=copy).tolist()
        == gl.rand(3, device="cuda", generator=generator).tolist()
    )


def test_devices_have_generators_of_their_own(cuda):
    gl.manual_seed(1)
    a, b = gl.rand(4, device="cuda:0"), gl.rand(4, device="cuda:1")
    assert b.device == gl.device("cuda:1") and a.tolist() == b.tolist()  # same seed, two generators
    assert gl.randn(3, device="cuda:1").device.index == 1
    assert gl.empty(3, device="cuda:1").normal_().device.index == 1


@pytest.mark.parametrize("seed", range(30))
def test_draws_on_several_streams_do_not_collide(lazy_cuda, seed):
    with lazy_cuda(seed) as cuda:
        gl.manual_seed(0)
        parts = []
        for stream in [cuda.cuda.Stream(non_blocking=True) for _ in range(3)]:
            with stream:
                parts.append((gl.rand(8, device="cuda"), stream))
        cuda.cuda.runtime.deviceSynchronize()
        drawn = [p.tolist() for p, _ in parts]
        gl.manual_seed(0)
        assert drawn == [gl.rand(8, device="cuda").tolist() for _ in range(3)]


def test_a_captured_draw_gives_new_numbers_on_every_replay(lazy_cuda):
    with lazy_cuda(2) as cuda:
        gl.manual_seed(0)
        expected = [gl.rand(6, device="cuda").tolist() for _ in range(4)]
        gl.manual_seed(0)
        assert gl.rand(6, device="cuda").tolist() == expected[0]
        cuda.cuda.runtime.deviceSynchronize()
        stream, pool = cuda.cuda.Stream(non_blocking=True), cuda.cuda.MemoryPool()
        with stream, cuda.cuda.using_allocator(pool.malloc):
            stream.begin_capture()
            out = gl.rand(6, device="cuda")
            graph = stream.end_capture()
            for wanted in expected[1:]:
                graph.launch()
                assert out.tolist() == wanted
