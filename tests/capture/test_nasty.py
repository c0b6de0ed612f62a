"""Programs that change behind the back of a plan: each call gives the bits of the same program without capture."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from gradlib.tape.pytree import flatten
from tests.capture.programs import bits
from tests.capture.running import CALLS, assert_same, outcome, x_of

PROGRAMS: dict[str, Callable[[Callable], list]] = {}


def program(f: Callable) -> Callable:
    PROGRAMS[f.__name__] = f
    return f


@program
def inputs_that_are_one_tensor(wrap):
    def step(a, b):
        a.mul_(2)
        return a + b

    step, found = wrap(step), []
    for k in range(CALLS):
        a = x_of(k)
        found.append(outcome(step, a, a if k % 3 == 2 else x_of(k + 50)))
    return found


@program
def inputs_that_share_memory(wrap):
    def step(a, b):
        a.add_(1)
        b.mul_(3)
        return a - b

    step, found = wrap(step), []
    for k in range(CALLS):
        base = torch.arange(8.0) + k
        pair = (base[:4], base[4:]) if k < 6 else (base[:4], base[2:6])
        found += [outcome(step, *pair), bits(base), base._version]
    return found


@program
def an_input_that_is_a_view_of_a_parameter(wrap):
    w = torch.ones(2, 3)

    def step(x):
        w.mul_(2)
        return x + w

    step, found = wrap(step), []
    for k in range(CALLS):
        found.append(outcome(step, w.view(2, 3) if k > 5 else x_of(k)))
        w.fill_(1.5 + k)
    return found


@program
def an_input_that_is_a_captured_tensor(wrap):
    w = torch.ones(2, 3)

    def step(x):
        x.add_(1)
        return w * 2

    step, found = wrap(step), []
    for k in range(CALLS):
        found += [outcome(step, w if k % 2 else x_of(k)), bits(w)]
    return found


@program
def an_input_that_is_a_gradient(wrap):
    w = torch.ones(2, 3, requires_grad=True)

    def step(x):
        (w * x).sum().backward()
        return x * 2

    step, found = wrap(step), []
    for k in range(CALLS):
        given = w.grad if k > 5 and w.grad is not None else x_of(k)
        found += [outcome(step, given), bits(w.grad)]
    return found


@program
def a_gradient_that_somebody_keeps(wrap):
    w, kept = torch.ones(2, 3, requires_grad=True), []

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    step = wrap(step)
    for k in range(CALLS):
        kept.append(step(x_of(k)))
    return [bits(v) for v in kept]


@program
def a_gradient_that_is_the_input(wrap):
    """The gradient of a + b is one array for both; nobody may write to the other's."""
    a, b = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)

    def step(x):
        a.grad = b.grad = None
        ((a + b) * x).sum().backward()

    step, found = wrap(step), []
    for k in range(CALLS):
        x = x_of(k)
        step(x)
        a.grad.add_(1)
        found += [bits(a.grad), bits(b.grad), bits(x)]
    return found


@program
def results_that_are_written_to(wrap):
    step, found, kept = wrap(lambda x: (torch.zeros(3), x * 2, x.relu() + 0)), [], []
    for k in range(CALLS):
        out = step(x_of(k))
        kept.append(out)
        out[0].add_(k)
        out[1].zero_()
        found.append([bits(v) for outs in kept for v in outs])
    return found


@program
def data_and_set_and_resize(wrap):
    w = torch.ones(2, 3)
    step, found = wrap(lambda x: x @ w.t()), []
    for k in range(CALLS):
        if k == 5:
            w.data = torch.full((2, 3), 4.0)
        elif k == 7:
            w.set_(torch.full((3, 3), 5.0))
        elif k == 9:
            w.resize_(1, 3)
        elif k == 10:
            w.data[0] = 7.0
        found.append(outcome(step, x_of(k)))
    return found


@program
def memory_shared_with_numpy(wrap):
    array = np.ones((2, 3), np.float32)
    w = torch.from_numpy(array)
    step, found = wrap(lambda x: x * w + w.sum()), []
    for k in range(CALLS):
        array[k % 2] += k
        found.append(outcome(step, x_of(k)))
    return found


@program
def an_array_of_numpy_that_the_step_reads(wrap):
    array = np.ones((2, 3), np.float32)
    step, found = wrap(lambda x: x * torch.from_numpy(array)), []
    for k in range(CALLS):
        array[k % 2] += k
        found.append(outcome(step, x_of(k)))
    return found


@program
def an_array_of_numpy_as_argument(wrap):
    array = np.ones((2, 3), np.float32)
    step, found = wrap(lambda x, a: x * torch.as_tensor(a)), []
    for k in range(CALLS):
        array[k % 2] += k
        found.append(outcome(step, x_of(k), array))
    return found


@program
def a_list_as_argument_that_grows(wrap):
    parts: list = [2.0]
    step, found = wrap(lambda x, p: x * sum(p)), []
    for k in range(CALLS):
        if k % 4 == 3:
            parts.append(float(k))
        found.append(outcome(step, x_of(k), parts))
    return found


class Settings:
    def __init__(self):
        self.scale, self.inner = 2.0, {"deep": [1.0]}


@program
def an_object_as_argument_that_changes(wrap):
    settings = Settings()
    step, found = wrap(lambda x, s: x * s.scale + s.inner["deep"][0]), []
    for k in range(CALLS):
        if k == 5:
            settings.scale = 3.0
        if k == 8:
            settings.inner["deep"][0] = -1.0
        found.append(outcome(step, x_of(k), settings))
    return found


@program
def a_class_attribute_and_a_method_exchanged(wrap):
    class Model(nn.Module):
        factor = 2.0

        def forward(self, x):
            return x * self.factor

    model = Model()
    step, found = wrap(lambda x: model(x)), []
    for k in range(CALLS):
        if k == 5:
            Model.factor = 3.0
        if k == 7:
            Model.forward = lambda self, x: x - self.factor
        if k == 9:
            model.forward = lambda x: x + 1
        found.append(outcome(step, x_of(k)))
    return found


@program
def code_and_defaults_of_a_function(wrap):
    def inner(x, by=2.0):
        return x * by

    def other(x, by=2.0):
        return x - by

    step, found = wrap(lambda x: inner(x)), []
    for k in range(CALLS):
        if k == 5:
            inner.__defaults__ = (5.0,)
        if k == 8:
            inner.__code__ = other.__code__
        found.append(outcome(step, x_of(k)))
    return found


@program
def rates_groups_and_state_of_an_optimizer(wrap):
    w, v = torch.ones(2, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        v.grad = None
        (w * x + v).pow(2).sum().backward()
        optimizer.step()

    step, found = wrap(step), []
    for k in range(CALLS):
        if k == 5:
            optimizer.param_groups[0]["lr"] = 0.01
        if k == 7:
            optimizer.add_param_group({"params": [v]})
        if k == 9:
            optimizer.state.clear()
        if k == 10:
            optimizer.param_groups[0]["params"].clear()
        step(x_of(k))
        found += [bits(w), bits(v), bits(w.grad)]
    return found


@program
def a_scheduler_and_hooks_of_an_optimizer(wrap):
    w, seen = torch.ones(2, 3, requires_grad=True), []
    optimizer = torch.optim.Adam([w], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    step, found = wrap(step), []
    for k in range(CALLS):
        if k == 6:
            optimizer.register_step_pre_hook(lambda *_: seen.append(1))
        step(x_of(k))
        scheduler.step()
        found += [bits(w), len(seen)]
    return found


@program
def methods_of_an_optimizer_that_are_replaced(wrap):
    w = torch.ones(2, 3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    step, found, before = wrap(step), [], torch.optim.SGD.step
    for k in range(CALLS):
        if k == 6:
            optimizer.step = lambda: None
        if k == 8:
            del optimizer.step
        try:
            if k == 10:
                torch.optim.SGD.step = lambda self: None
            step(x_of(k))
        finally:
            torch.optim.SGD.step = before
        found += [bits(w), bits(w.grad)]
    return found


@program
def batch_norm_that_is_switched_and_whose_buffers_are_replaced(wrap):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.arange(float(p.numel())).reshape(p.shape) / 7)
    torch.manual_seed(0)
    step, found = wrap(lambda x: model(x).detach() + 0), []
    for k in range(16):
        if k == 5:
            model.eval()
        if k == 8:
            model[1].running_mean = torch.full((4,), 3.0)
        if k == 10:
            model.train()
        if k == 12:
            model[1].momentum = 0.5
        if k == 14:
            model[1].register_buffer("running_var", torch.full((4,), 9.0))
        found += [outcome(step, x_of(k)), [bits(b) for b in model.buffers()]]
    return found


@program
def modes_around_calls(wrap):
    w = torch.ones(3, 3, requires_grad=True)
    step, found = wrap(lambda x: (x @ w).detach() + torch.ones(3)), []
    modes = [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), torch.enable_grad]
    for k in range(CALLS + 6):
        with modes[k % 4]() if k > 4 else torch.enable_grad():
            out = step(x_of(k))
        found += [bits(out), out.is_inference()]
    return found


@program
def default_dtype_and_gradients_toggled(wrap):
    w = torch.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        y = x * w + torch.zeros(3)
        if y.requires_grad:
            y.sum().backward()
        return y.detach() + 0

    step, found = wrap(step), []
    for k in range(CALLS):
        if k in (5, 8):
            w.requires_grad_(k == 8)
        torch.set_default_dtype(torch.float64 if k in (6, 10) else torch.float32)
        try:
            found += [outcome(step, x_of(k).float()), bits(w.grad)]
        finally:
            torch.set_default_dtype(torch.float32)
    return found


@program
def hooks_that_come_and_go(wrap):
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.fill_(0.25)

    def step(x):
        model.zero_grad()
        model(x).sum().backward()

    def triple(p):
        p.grad.mul_(3)

    step, found, handle = wrap(step), [], None
    adders = [
        lambda: model.weight.register_hook(lambda g: g * 2),
        lambda: model.bias.register_post_accumulate_grad_hook(triple),
        lambda: model.register_forward_hook(lambda m, i, o: o * 5),
        lambda: model.register_forward_pre_hook(lambda m, i: (i[0] + 1,)),
        lambda: model.register_full_backward_hook(lambda m, i, o: (i[0],)),
        lambda: nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 7),
    ]
    for k in range(16):
        if k > 4 and k % 2:
            handle = adders[(k - 5) // 2 % len(adders)]()
        step(x_of(k))
        found += [bits(model.weight.grad), bits(model.bias.grad)]
        if handle is not None:
            handle.remove()
            handle = None
    return found


@program
def a_parameter_registered_later_and_one_parametrized(wrap):
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.fill_(0.25)
    step, found = wrap(lambda x: model(x).detach() + 0), []
    for k in range(CALLS):
        if k == 5:
            model.weight = nn.Parameter(torch.full((2, 3), 2.0))
        if k == 8:
            nn.utils.parametrize.register_parametrization(model, "weight", nn.Tanh())
        found.append(outcome(step, x_of(k)))
    return found


@program
def an_exception_in_the_middle(wrap):
    table, w = torch.arange(12.0).reshape(6, 2), torch.zeros(2)

    def step(i):
        w.add_(1)
        out = F.embedding(i, table) + w
        w.mul_(2)
        return out

    step, found = wrap(step), []
    for k in range(CALLS):
        found += [outcome(step, torch.tensor([9 if k % 4 == 3 else 1])), bits(w), w._version]
    return found


@program
def a_captured_step_inside_another_one(wrap):
    scale = [2.0]
    inner = wrap(lambda x: x * scale[0])
    step, found = wrap(lambda x: inner(x) + 1), []
    for k in range(CALLS):
        if k == 7:
            scale[0] = 3.0
        found += [outcome(step, x_of(k)), outcome(inner, x_of(k))]
    return found


@program
def an_instance_of_a_subclass(wrap):
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_function__(func, types, args, kwargs or {})
            return out * 2 if func.__name__ == "mul" else out

    w = torch.ones(3)
    step, found = wrap(lambda x, w: (x * w).as_subclass(torch.Tensor)), []
    for k in range(CALLS):
        found.append(outcome(step, x_of(k), w.as_subclass(Mine) if k % 3 == 2 else w))
    return found


@program
def a_global_function_of_the_library_that_is_replaced(wrap):
    step, found = wrap(lambda x: F.relu(x) + torch.sin(x)), []
    relu, sin = F.relu, torch.sin
    for k in range(CALLS):
        try:
            if k > 5:
                F.relu = lambda x: x * 10
            if k > 8:
                torch.sin = lambda x: x * 0
            found.append(outcome(step, x_of(k)))
        finally:
            F.relu, torch.sin = relu, sin
    return found


@program
def methods_of_the_library_that_are_replaced(wrap):
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh())
    with torch.no_grad():
        model[0].weight.fill_(0.5)
    step, found = wrap(lambda x: model(x).detach().cos() + nn.functional.relu(x)), []
    before = nn.Tanh.forward, torch.Tensor.cos
    for k in range(CALLS):
        try:
            if k > 5:
                nn.Tanh.forward = lambda self, x: x * 2
            if k > 8:
                torch.Tensor.cos = lambda x: x - 1
            found.append(outcome(step, x_of(k)))
        finally:
            nn.Tanh.forward, torch.Tensor.cos = before
    return found


@program
def strided_inputs_and_flags(wrap):
    step, found = wrap(lambda x: x * 2 + x.is_contiguous()), []
    for k in range(CALLS):
        x = x_of(k)
        found.append(outcome(step, x.t().contiguous().t() if k % 2 else x))
    return found


@program
def conjugates_and_negatives(wrap):
    step, found = wrap(lambda x: x.imag + x.real if x.is_complex() else x), []
    for k in range(CALLS):
        x = torch.complex(x_of(k), x_of(k + 1))
        found.append(outcome(step, x.conj() if k % 3 == 2 else x))
    return found


@program
def an_input_that_is_read_only_or_broadcast(wrap):
    def step(x):
        x.add_(1)
        return x * 2

    step, found = wrap(step), []
    for k in range(CALLS):
        x = torch.ones(1, 3).expand(2, 3) if k % 3 == 2 else x_of(k)
        found.append(outcome(step, x))
    return found


@program
def the_generator_of_dropout(wrap):
    torch.manual_seed(1)
    step, found = wrap(lambda x: F.dropout(x, 0.5)), []
    for k in range(CALLS):
        if k % 4 == 3:
            torch.manual_seed(5)
        found += [outcome(step, x_of(k)), bits(torch.rand(2))]
    return found


@program
def an_attribute_with_a_dunder_getattr(wrap):
    class Proxy:
        def __init__(self):
            self.values = {"scale": 2.0}

        def __getattr__(self, name):
            return self.__dict__["values"][name]

    proxy = Proxy()
    step, found = wrap(lambda x: x * proxy.scale), []
    for k in range(CALLS):
        if k == 6:
            proxy.values["scale"] = -4.0
        found.append(outcome(step, x_of(k)))
    return found


@program
def tensors_in_lists_and_cells_that_are_exchanged(wrap):
    weights, w = [torch.ones(3)], torch.ones(3)
    step, found = wrap(lambda x: x * weights[0] + w), []
    for k in range(CALLS):
        if k == 5:
            weights[0] = torch.full((3,), 2.0)
        if k == 8:
            w = torch.full((3,), 3.0)
        found.append(outcome(step, x_of(k)))
    return found


@program
def inputs_whose_history_or_tangent_matters(wrap):
    step, found = wrap(lambda x: x * 2), []
    for k in range(CALLS):
        x = x_of(k)
        if k % 4 == 3:
            x.requires_grad_()
        out = step(x)
        found += [bits(out), out.grad_fn is None]
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x.detach(), x.detach())
            found.append(bits(torch.autograd.forward_ad.unpack_dual(step(dual)).tangent))
        found.append(bits(torch.vmap(step)(x.detach())))
        found.append(bits(torch.func.grad(lambda v: step(v).sum())(x.detach())))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_or_not_is_the_same(name):
    assert_same(PROGRAMS[name])


def test_threads_that_train_models_of_their_own():
    def work(wrap, results, k):
        w = torch.full((3,), float(k), requires_grad=True)

        def step(x):
            w.grad = None
            (w * x).pow(2).sum().backward()
            return w.grad

        step = wrap(step)
        results[k] = [bits(step(x_of(i))) for i in range(30)]

    found: dict = {}
    expected: dict = {}
    threads = [
        threading.Thread(target=work, args=(wrap, into, k))
        for k in range(4)
        for wrap, into in ((torch.capture, found), (lambda f: f, expected))
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == expected


def test_kernels_that_look_at_values_before_they_say_no():
    """An overlay may leave some values to the formula: a replay asks it again, whatever it said in the recording."""
    x = torch.arange(6.0).reshape(3, 2)
    tiny, b = torch.eye(6), torch.ones(6, 2)
    tiny[0, 0] = 1e-42
    cases = [
        (lambda i: F.nll_loss(x, i), torch.tensor([1, 0, 1]), torch.tensor([1, -100, 0])),
        (lambda i: F.cross_entropy(x, i), torch.tensor([1, 0, 1]), torch.tensor([1, -100, 0])),
        (lambda a: torch.linalg.solve_triangular(a, b, upper=True), torch.eye(6) * 2, tiny),
        (lambda a: torch.linalg.pinv(a), torch.eye(12) * 2, torch.ones(12, 12)),
    ]
    for f, *values in cases:
        for first, other in (values, values[::-1]):
            step = torch.capture(f)
            for k in range(8):
                given = other if k in (5, 6) else first
                assert [bits(v) for v in flatten(step(given))[0]] == [
                    bits(v) for v in flatten(f(given))[0]
                ]
            assert step.replays == 1


def test_the_garbage_collector_is_no_part_of_a_step():
    """Its callbacks (of hypothesis, of profilers) and finalizers of garbage run at any time, recorded or not."""
    called = []

    class Garbage:
        def __init__(self):
            self.me = self

        def __del__(self):
            called.append("finalized")

    def callback(phase, info):
        called.append(phase)

    def f(x):
        for _ in range(20):
            x = (x * 1.5).sin()
        return x

    step, threshold = torch.capture(f), gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(1, 1, 1)
    try:
        for k in range(6):
            Garbage()
            assert bits(step(x_of(k))) == bits(f(x_of(k)))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(callback)
    assert called and gc.isenabled()
    assert step.replays == 1, torch.explain(step)


@pytest.mark.filterwarnings("ignore:Use of index_put_ on expanded")
def test_writes_to_memory_that_elements_share():
    def f(x):
        y = torch.ones(1, 3).expand(2, 3)
        y[torch.tensor([0, 1])] = x
        return y * 2

    step = torch.capture(f)
    for k in range(5):
        assert bits(step(x_of(k))) == bits(f(x_of(k)))
    assert "warns" in str(torch.explain(step)[0])


def test_modes_inside_the_step_see_all_that_runs():
    from gradlib.utils._python_dispatch import TorchDispatchMode
    from gradlib.utils.flop_counter import FlopCounterMode

    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def counted(x):
        w.grad = None
        with FlopCounterMode(display=False) as counter:
            (x @ w).square().sum().backward()
        return counter.get_total_flops(), w.grad.clone()

    def named(x):
        w.grad = None
        with Names() as mode:
            torch.dropout(x @ w, 0.5, True).sum().backward()
            optimizer.step()
        return len(mode.seen), *mode.seen, w.detach() + 0

    def without_grad(x):
        w.grad = None
        (x @ w).sum().backward()
        with torch.no_grad():
            optimizer.step()
        return w.detach() + 0

    for f in (counted, named, without_grad):
        found = []
        for wrap in (lambda f: f, torch.capture):
            torch.manual_seed(0)
            w = torch.ones(3, 2, requires_grad=True)
            optimizer = torch.optim.SGD([w], lr=0.1)
            step = wrap(f)
            found.append([outcome(step, x_of(k)) for k in range(6)])
        assert found[0] == found[1], f


def test_the_order_of_strides_of_expanded_tensors():
    """Where eager ops leave it to NumPy, plans do."""
    ops = {
        "number": lambda x, y: x * 0.5, "left": lambda x, y: 1 - x, "exp": lambda x, y: x.exp(),
        "power": lambda x, y: x**2, "clamp": lambda x, y: x.clamp(0, 1), "both": lambda x, y: x + x,
        "two": lambda x, y: x + y, "relu": lambda x, y: x.relu(), "where": lambda x, y: torch.where(x > 0, x, y),
        "cast": lambda x, y: x.long() * 0.5,
    }  # fmt: skip
    layouts = [
        torch.ones(2, 1, 3).expand(2, 2, 3).permute(2, 1, 0), torch.ones(3, 1, 3).expand(2, 3, 1, 3).movedim(-2, 0),
        torch.ones(1, 2, 1, 1), torch.ones(2, 3, 4).transpose(0, 2), torch.ones(1, 3, 2).expand(4, 3, 2),
    ]  # fmt: skip
    for x in layouts:
        y = torch.ones(*x.shape[1:])
        for name, f in ops.items():
            step = torch.capture(f)
            for _ in range(4):
                assert step(x, y).stride() == f(x, y).stride(), (name, x.shape, x.stride())


def test_tensors_that_were_made_in_inference_mode():
    with torch.inference_mode():
        outer = torch.ones(3)

    def made(x):
        with torch.inference_mode():
            y = torch.ones(3)
        return x + y

    def returned(x):
        with torch.inference_mode():
            return torch.zeros(3)

    for f in (lambda x: x * outer, made, returned):
        step = torch.capture(f)
        for k in range(5):
            found, expected = step(x_of(k)), f(x_of(k))
            assert bits(found) == bits(expected)
            assert found.is_inference() == expected.is_inference()


def test_errors_of_writes_while_they_are_recorded():
    def f(x):
        x = x.double()
        x //= torch.ones(3, dtype=torch.complex128)
        return x

    step = torch.capture(f)
    for k in range(4):
        assert outcome(step, x_of(k)) == outcome(f, x_of(k))


def test_tensors_of_numbers_with_strides_of_their_own():
    """A dimension of one element may have any stride, which a copy in that order does not keep."""
    x = torch.ones(4, 2)[:, ::2]
    step = torch.capture(lambda x: torch.ones_like(x) * 2 + x)
    made = torch.ones_like(x)
    for _ in range(5):
        assert step(x).tolist() == [[3.0]] * 4
    assert step.replays == 1, torch.explain(step)
    step = torch.capture(
        lambda x: (torch.ones_like(x).t().contiguous().t(), torch.full_like(x, 2.0))
    )
    for _ in range(5):
        assert [t.stride() for t in step(x)] == [
            torch.ones_like(x).t().contiguous().t().stride(),
            made.stride(),
        ]
