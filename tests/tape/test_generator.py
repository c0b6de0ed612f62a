"""Random number generators: seeds, states, forks and threads."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest

import gradlib
from gradlib import random as gradlib_random
from gradlib.tape import generator as generators
from gradlib.tape.generator import Generator, default_generator


@pytest.fixture(autouse=True)
def _state():
    """Leave the default generator as it was."""
    state = default_generator.get_state()
    yield
    default_generator.set_state(state)


def draw(generator, n=5):
    return generator.rng.standard_normal(n).tolist()


def test_a_new_generator_has_the_documented_seed():
    assert Generator().initial_seed() == generators.DEFAULT_SEED == 67280421310721
    assert draw(Generator()) == draw(Generator())
    assert str(Generator().device) == "cpu"


def test_same_seed_same_numbers():
    g = Generator()
    assert g.manual_seed(7) is g
    first = draw(g)
    assert draw(g) != first
    assert draw(g.manual_seed(7)) == first
    assert draw(g.manual_seed(8)) != first


@pytest.mark.parametrize(("seed", "meaning"), [(-1, 2**64 - 1), (2**64 - 1, 2**64 - 1), (0, 0)])
def test_negative_seeds_count_from_the_top(seed, meaning):
    assert Generator().manual_seed(seed).initial_seed() == meaning


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seed_out_of_range(seed):
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", [1.5, True, "a", None])
def test_seed_of_a_wrong_type(seed):
    with pytest.raises(RuntimeError, match="manual_seed expected a long, but got"):
        Generator().manual_seed(seed)


def test_state_is_put_back_exactly():
    """Also in the middle of a 64-bit word: 32-bit draws leave half of one behind."""
    g = Generator().manual_seed(3)
    g.rng.random(3, dtype=np.float32)
    state = g.get_state()
    assert state.dtype is gradlib.uint8
    expected = g.rng.random(7, dtype=np.float32).tolist(), draw(g), g.initial_seed()
    g.manual_seed(99)
    assert g.set_state(state) is g
    assert (g.rng.random(7, dtype=np.float32).tolist(), draw(g), g.initial_seed()) == expected


def test_wrong_states_are_refused():
    g = Generator()
    with pytest.raises(TypeError, match=r"expected a torch.ByteTensor, but got list"):
        g.set_state([1])
    with pytest.raises(TypeError, match=r"RNG state must be a torch.ByteTensor"):
        g.set_state(gradlib.zeros(3, device="cpu"))
    with pytest.raises(RuntimeError, match="found the input RNG state size to be 3"):
        g.set_state(gradlib.zeros(3, dtype=gradlib.uint8, device="cpu"))


def test_copies_have_a_state_of_their_own():
    g = Generator().manual_seed(5)
    draw(g)
    for other in (g.clone_state(), pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
        assert other.initial_seed() == 5
        here = g.clone_state()
        assert draw(other) == draw(here)


def test_seed_from_the_system_differs_each_time():
    g = Generator()
    assert g.seed() != g.seed()
    assert g.initial_seed() != generators.DEFAULT_SEED


def test_devices_without_a_generator_say_what_to_do():
    if "cuda" in generators._kinds:
        pytest.skip("there is a CUDA generator")
    with pytest.raises(RuntimeError, match=r"Cannot get CUDA generator.*install"):
        Generator("cuda")


def test_a_registered_generator_is_made_for_its_device(monkeypatch):
    class Fake(Generator):
        __slots__ = ()

    monkeypatch.setitem(generators._kinds, "cuda", Fake)
    assert type(Generator("cuda")) is Fake


def test_manual_seed_seeds_the_default_generator():
    assert gradlib_random.manual_seed(11) is default_generator
    assert gradlib_random.initial_seed() == 11
    first = gradlib.rand(4).tolist()
    gradlib_random.manual_seed(11)
    assert gradlib.rand(4).tolist() == first
    assert gradlib_random.seed() == gradlib_random.initial_seed() != 11


def on_device() -> bool:
    return gradlib.get_default_device().type == "cuda"


def default_state() -> list:
    """The state of the generator that new tensors draw from."""
    if on_device():
        return gradlib.cuda.get_rng_state(gradlib.get_default_device()).tolist()
    return gradlib_random.get_rng_state().tolist()


def test_generator_argument_is_used_instead_of_the_default():
    before = default_state()
    g = Generator(gradlib.get_default_device()).manual_seed(1)
    a = gradlib.rand(4, generator=g)
    assert default_state() == before
    assert gradlib.rand(4, generator=g.manual_seed(1)).tolist() == a.tolist()


def test_fork_rng_leaves_no_trace():
    gradlib_random.manual_seed(1)
    expected = gradlib.rand(3).tolist()
    gradlib_random.manual_seed(1)
    chosen = [gradlib.get_default_device().index or 0] if on_device() else None
    with gradlib_random.fork_rng(devices=chosen):
        gradlib.rand(10)
        gradlib_random.manual_seed(2)
    assert gradlib.rand(3).tolist() == expected
    state = default_state()
    with gradlib_random.fork_rng(enabled=False):
        gradlib.rand(1)
    assert default_state() != state


def test_fork_rng_puts_the_state_back_after_an_error():
    state = default_state()
    chosen = [gradlib.get_default_device().index or 0] if on_device() else None
    forked = gradlib_random.fork_rng(devices=chosen)
    forked.__enter__()
    gradlib.rand(1)
    error = ZeroDivisionError()
    assert not forked.__exit__(type(error), error, None)
    assert default_state() == state


class FakeDevices:
    """Two devices whose state is a number."""

    def __init__(self):
        self.states = [0, 0]

    def manual_seed_all(self, seed):
        self.states = [seed, seed]

    def device_count(self):
        return 2

    def get_rng_state(self, device):
        return self.states[device]

    def set_rng_state(self, new_state, device):
        self.states[device] = new_state


def test_devices_that_register_later_get_the_seed(monkeypatch):
    registered: dict = {}
    for module in (generators, gradlib_random):
        monkeypatch.setattr(module, "DEVICES", registered)
    gradlib_random.manual_seed(21)
    devices = FakeDevices()
    gradlib_random.register_device("cuda", devices)
    assert devices.states == [21, 21]
    gradlib_random.manual_seed(22)
    assert devices.states == [22, 22]
    with gradlib_random.fork_rng(devices=[1]):
        gradlib_random.manual_seed(23)
    assert devices.states == [23, 22]
    with pytest.warns(UserWarning, match="all 2 cuda devices"), gradlib_random.fork_rng():
        gradlib_random.manual_seed(24)
    assert devices.states == [23, 22]


def test_draws_of_many_threads_do_not_repeat():
    """The generator is locked while it draws, so no two threads get the same numbers."""
    g = Generator().manual_seed(0)
    seen: list[float] = []

    def work():
        for _ in range(200):
            seen.extend(g.rng.random(8).tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == len(set(seen)) == 4 * 200 * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_can_draw_although_another_thread_held_the_lock():
    lock = default_generator.rng.bit_generator.lock
    state = default_generator.get_state().tolist()
    with lock:
        child = os.fork()
        if child == 0:
            same = default_generator.get_state().tolist() == state
            default_generator.rng.random(2)
            os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_that_draw_first_share_the_source_of_numbers():
    for _ in range(20):
        generator, barrier, found = Generator(), threading.Barrier(4), []

        def first(generator=generator, barrier=barrier, found=found):
            barrier.wait()
            found.append(generator.rng)

        threads = [threading.Thread(target=first) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(rng) for rng in found}) == 1


def test_a_seed_before_the_first_draw_counts():
    early, late = Generator().manual_seed(5), Generator()
    late.rng.random()
    assert early.initial_seed() == 5
    assert draw(early) == draw(late.manual_seed(5))
