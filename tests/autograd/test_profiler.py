"""gradlib.autograd.profiler.profile: what is recorded, with which options."""

from __future__ import annotations

import threading
import warnings
from collections import Counter

import pytest

import gradlib
from gradlib.autograd import profiler
from gradlib.op import write
from gradlib.op.declare import REGISTRY
from gradlib.tape import modes, recording
from tests.autograd.profiles import counts, named


def twice_in_profile(**options):
    x = gradlib.ones(3, 4, requires_grad=True)
    with profiler.profile(**options) as prof:
        y = x * 2
    return prof, y


# rows: PROF-01 PROF-03
def test_names_and_counts_of_the_documented_example():
    x = gradlib.randn((1, 1), requires_grad=True)
    with profiler.profile() as prof:
        for _ in range(100):
            y = x**2
            y.backward()
    assert counts(prof) == {
        "pow": 200,
        "mul": 200,
        "PowBackward0": 100,
        "torch::autograd::AccumulateGrad": 100,
        "torch::autograd::GraphRoot": 100,
    }


# rows: PROF-03
def test_the_result_of_backward_is_the_same_while_it_is_profiled():
    def gradient(profiled):
        x = gradlib.arange(6.0).reshape(2, 3).requires_grad_()
        with profiler.profile(enabled=profiled):
            (x.sin() * x + x.sum(0)).square().mean().backward()
        return x.grad

    assert gradlib.equal(gradient(True), gradient(False))


# rows: PROF-02
def test_disabled_profile_records_nothing():
    with profiler.profile(enabled=False) as prof:
        gradlib.ones(2) * 2
        assert not modes.has_flag(modes.PROFILE)
    assert isinstance(prof, profiler.profile)
    assert prof.function_events == []
    assert prof.key_averages() == []
    assert prof.table() == ""


# rows: PROF-04
def test_a_profile_cannot_be_entered_twice():
    prof = profiler.profile()
    with prof, pytest.raises(RuntimeError, match="Profiler context manager is not reentrant"):
        prof.__enter__()
    with pytest.raises(RuntimeError, match="Profiler context manager is not reentrant"):
        prof.__enter__()
    assert not modes.has_flag(modes.PROFILE)


def test_two_profiles_nest():
    x = gradlib.ones(2)
    with profiler.profile() as outer:
        x * 2
        with profiler.profile() as inner:
            x + 1
        x - 1
    assert counts(outer) == {"mul": 1, "add": 1, "sub": 1}
    assert counts(inner) == {"add": 1}


def test_events_are_there_when_the_block_has_ended():
    with profiler.profile() as prof:
        assert str(prof) == repr(prof) == "<unfinished profile>"
        with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
            prof.key_averages()
    assert prof.key_averages() == []


# rows: PROF-05
def test_other_threads_are_absent():
    x = gradlib.ones(2, requires_grad=True)
    with profiler.profile() as prof:
        thread = threading.Thread(target=lambda: x.exp().sum().backward())
        thread.start()
        thread.join()
        x * 2
    assert counts(prof) == {"mul": 1}


# rows: PROF-05
def test_backward_passes_in_threads_of_the_engine_are_present():
    def nested(depth):
        class Inner(gradlib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                with gradlib.enable_grad():
                    y = gradlib.ones(1, requires_grad=True)
                    (nested(depth - 1)(y) if depth else y.exp()).sum().backward()
                return g

        return Inner.apply

    x = gradlib.ones(1, requires_grad=True)
    with profiler.profile() as prof:
        nested(60)(x).sum().backward()
    assert counts(prof)["InnerBackward"] == 61
    assert counts(prof)["ExpBackward0"] == 1
    assert len({e.thread for e in prof.function_events}) == 2


# rows: PROF-06 PROF-07
def test_devices_that_are_not_there():
    unavailable = pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling")
    if not gradlib.cuda.is_available():
        with unavailable, pytest.warns(FutureWarning, match="use_cuda"):
            prof = profiler.profile(use_cuda=True)
        assert prof.use_device is None
        with prof:
            gradlib.ones(2) * 2
        assert counts(prof) == {"mul": 1}
    with pytest.warns(UserWarning, match="The zz is not a valid device option."):
        assert profiler.profile(use_device="zz").use_device is None
    with pytest.warns(UserWarning, match="XPU is not available, disabling XPU profiling"):
        assert profiler.profile(use_device="xpu").use_device is None


# rows: PROF-06
@pytest.mark.usefixtures("cuda")
def test_device_times():
    x = gradlib.ones(1000, device="cuda", requires_grad=True)
    y = gradlib.ones(10, device="cuda:1")
    with profiler.profile(use_device="cuda", profile_memory=True) as prof:
        start, end = (gradlib.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        (x * 2).sum().backward()
        end.record()
        gradlib.cat([y, y])
        y[0].expand(5, 5)
        gradlib.ones(3, device="cpu") + 1
    events = {e.name: e for e in prof.function_events}
    assert [k.name for k in events["mul"].kernels] == ["mul"]
    assert events["cat"].kernels[0].device == 1 and events["mul"].kernels[0].device == 0
    assert events["expand"].device_memory_usage == 0
    assert events["add"].kernels == [] and events["add"].device_time_total == 0
    node = events["MulBackward0"]
    assert node.kernels == [] and node.device_time_total == sum(
        child.device_time_total for child in node.cpu_children
    )
    assert len(events["torch::autograd::AccumulateGrad"].kernels) == 1
    between = start.elapsed_time(end) * 1e3
    on_first = sum(k.duration for e in prof.function_events for k in e.kernels if k.device == 0)
    assert 0 < on_first <= between
    forward = next(e for e in prof.function_events if e.name == "mul")
    assert forward.device_memory_usage == 4000 and forward.cpu_memory_usage == 0
    table = prof.key_averages().table(sort_by="cuda_time_total")
    assert "Self CUDA" in table and "CUDA Mem" in table


# rows: PROF-06
@pytest.mark.usefixtures("cuda")
def test_use_cuda_is_the_older_name():
    with pytest.warns(FutureWarning, match="use_cuda"):
        prof = profiler.profile(use_cuda=True)
    assert prof.use_device == "cuda"
    with prof:
        gradlib.ones(3, device="cuda") * 2
    assert named(prof, "mul").cuda_time_total > 0


# rows: PROF-08
def test_shapes():
    prof, _ = twice_in_profile(record_shapes=True)
    assert named(prof, "mul").input_shapes == [[3, 4], []]


# rows: PROF-08
def test_shapes_of_lists_other_arguments_and_nodes():
    x = gradlib.ones(2, 3, requires_grad=True)
    with profiler.profile(record_shapes=True) as prof:
        gradlib.cat([x, x]).sum(0, True).sum().backward()
    assert named(prof, "cat").input_shapes[0] == []
    assert named(prof, "CatBackward0").input_shapes == [[4, 3]]
    assert named(prof, "torch::autograd::AccumulateGrad").input_shapes == [[2, 3]]
    first_sum = next(e for e in prof.function_events if e.name == "sum")
    assert first_sum.input_shapes[0] == [4, 3]
    assert all(shape == [] for shape in first_sum.input_shapes[1:])


# rows: PROF-10
@pytest.mark.host
def test_memory_of_results():
    x = gradlib.ones(4, 4)
    with profiler.profile(profile_memory=True) as prof:
        y = x * 2
        y.view(16)
        z = x[1:] + 1
        x.add_(1)
    assert named(prof, "mul").cpu_memory_usage == 64
    assert named(prof, "view").cpu_memory_usage == 0
    assert named(prof, "add").cpu_memory_usage == 48
    assert named(prof, "add_").cpu_memory_usage == 0
    assert "CPU Mem" in prof.table() and "64 B" in prof.table()
    assert z.shape == (3, 4)


# rows: PROF-10
@pytest.mark.host
def test_memory_is_released():
    x = gradlib.ones(4, 4)
    with profiler.profile(profile_memory=True) as prof:
        y = x * 2
        with profiler.record_function("inside"):
            y = y + 1  # releases the product
        view = y[0]
        del y
        assert "[memory]" not in view.shape
        del view
    inside = named(prof, "inside")
    assert inside.cpu_memory_usage == 0
    assert inside.self_cpu_memory_usage == -64
    assert named(prof, "[memory]").cpu_memory_usage == -64
    assert prof.total_average().self_cpu_memory_usage == 0


# rows: PROF-10
@pytest.mark.host
def test_memory_of_new_tensors():
    with profiler.profile(profile_memory=True) as prof:
        x = gradlib.ones(4, 4)
        with profiler.record_function("label"):
            y = gradlib.randn(2, 4)
            del x
        y = gradlib.tensor([1.0, 2.0])  # releases the other
    assert named(prof, "label").cpu_memory_usage == 32 - 64
    outside = [e.cpu_memory_usage for e in prof.function_events if e.name == "[memory]"]
    assert outside == [64, 8, -32]
    assert y.nbytes == 8


# rows: PROF-11
def test_stack_has_file_line_and_function():
    x = gradlib.ones(2)

    def work():
        return x * 2

    with profiler.profile(with_stack=True) as prof:
        work()
    line = work.__code__.co_firstlineno + 1
    stack = named(prof, "mul").stack
    assert stack[0] == f"{__file__}({line}): work"
    assert stack[1].startswith(__file__) and stack[1].endswith(
        "test_stack_has_file_line_and_function"
    )
    assert not any("gradlib/tape" in entry or "gradlib/op" in entry for entry in stack)


# rows: PROF-11
def test_backward_has_the_stack_of_forward():
    x = gradlib.ones(2, requires_grad=True)
    with profiler.profile(with_stack=True) as prof:
        y = x.exp()
        y.backward(gradlib.ones(2))
    assert named(prof, "ExpBackward0").stack == named(prof, "exp").stack
    assert named(prof, "mul").stack == named(prof, "exp").stack


# rows: PROF-12
def test_module_hierarchy():
    class Inner(gradlib.nn.Module):
        def forward(self, x):
            return x.exp()

    class Outer(gradlib.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x) + 1

    x, model = gradlib.ones(2, requires_grad=True), Outer()
    with profiler.profile(with_modules=True) as prof:
        y = model(x).sum()
        y.backward()
    assert named(prof, "exp").module_hierarchy == "Outer.Inner"
    assert named(prof, "add").module_hierarchy == "Outer"
    assert named(prof, "sum").module_hierarchy == ""
    assert named(prof, "ExpBackward0").module_hierarchy == "Outer.Inner"
    model(x)
    assert not gradlib.nn.Module._hooked  # calls are as cheap as before


# rows: PROF-13
def test_options_without_effect():
    prof, _ = twice_in_profile(use_kineto=True, experimental_config=object())
    assert counts(prof) == {"mul": 1}


# rows: PROF-14
def test_use_cpu_false_needs_kineto():
    with pytest.raises(AssertionError, match="Device-only events supported only with Kineto"):
        profiler.profile(use_cpu=False)
    profiler.profile(use_cpu=False, use_kineto=True)


# rows: PROF-15
def test_use_mtia():
    with pytest.warns(UserWarning, match="MTIA is not available"):
        profiler.profile(use_mtia=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profiler.profile(use_mtia=False)


# rows: PROF-16
def test_events_have_the_documented_attributes():
    prof, _ = twice_in_profile()
    events = prof.function_events
    assert isinstance(events, profiler.EventList)
    (event,) = events
    assert isinstance(event, profiler.FunctionEvent)
    assert event.name == event.key == "mul" and event.id == 0 and event.count == 1
    assert event.time_range.start < event.time_range.end
    assert event.thread == 1 and event.scope == 0 and event.sequence_nr >= 0
    assert event.cpu_parent is None and event.cpu_children == [] and event.kernels == []
    assert event.input_shapes == [] and event.stack == [] and event.flops == 0


# rows: PROF-17
def test_events_nest():
    x = gradlib.ones(2, requires_grad=True)
    with profiler.profile() as prof, profiler.record_function("outer"):
        with profiler.record_function("inner"):
            x * 2
        x + 1
    outer, inner, mul, add = prof.function_events
    assert outer.cpu_children == [inner, add] and inner.cpu_children == [mul]
    assert add.cpu_parent is outer and mul.cpu_parent is inner and outer.cpu_parent is None
    assert outer.self_cpu_time_total == pytest.approx(
        outer.cpu_time_total - inner.cpu_time_total - add.cpu_time_total
    )


# rows: PROF-22
def test_self_times_sum_up():
    prof, _ = twice_in_profile()
    assert prof.self_cpu_time_total == sum(e.self_cpu_time_total for e in prof.function_events) > 0


# rows: PROF-03
def test_taking_a_value_to_python_is_an_event():
    """It waits for a device, so its time must not be missing."""
    x = gradlib.ones(3, requires_grad=True)
    with profiler.profile(record_shapes=True, with_stack=True) as prof:
        total = x.sum()
        assert (total.item(), float(total), bool(total > 1)) == (3, 3, True)
    events = [(e.name, e.input_shapes, e.sequence_nr) for e in prof.function_events]
    assert [e[0] for e in events] == ["sum", "item", "item", "gt", "item"]
    assert events[1] == ("item", [[]], -1)
    assert all(e.stack and "test_profiler.py" in e.stack[0] for e in prof.function_events)


def test_names_of_random_operations_in_place():
    x = gradlib.ones(3)
    with profiler.profile() as prof:
        x.normal_()
        x.uniform_()
        gradlib.nn.functional.dropout(x)
    assert [e.name for e in prof.function_events] == ["normal_", "uniform_", "native_dropout"]


def test_in_place_operations_and_custom_functions():
    class Double(gradlib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g + g

    x = gradlib.ones(2, requires_grad=True)
    with profiler.profile() as prof:
        y = Double.apply(x)
        y.mul_(3)
        y.sum().backward()
    double = named(prof, "Double")
    assert [e.name for e in double.cpu_children] == ["mul"]
    backward = named(prof, "DoubleBackward")
    assert [e.name for e in backward.cpu_children] == ["add"]
    assert backward.sequence_nr == double.sequence_nr
    assert named(prof, "mul_").sequence_nr == double.sequence_nr + 1
    assert x.grad.tolist() == [6, 6]


def test_an_op_that_raises_is_recorded_and_leaves_the_profiler_on():
    with profiler.profile() as prof:
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            gradlib.ones(2, 3) @ gradlib.ones(2, 3)
        with pytest.raises(RuntimeError, match="size of tensor"):
            gradlib.ones(2) * gradlib.ones(3)
        gradlib.ones(2) + 1
    assert counts(prof)["mul"] == 1 and counts(prof)["add"] == 1
    assert not modes.has_flag(modes.PROFILE)


def test_an_error_in_backward_ends_all_ranges():
    class Bad(gradlib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no")

    x = gradlib.ones(2, requires_grad=True)
    with profiler.profile() as prof:
        with pytest.raises(ValueError, match="no"):
            Bad.apply(x).sum().backward()
        x * 2
    assert named(prof, "mul").cpu_parent is None
    assert counts(prof)["BadBackward"] == 1


def test_modes_work_while_profiled():
    x = gradlib.ones(3, requires_grad=True)
    with profiler.profile() as prof:
        with gradlib.no_grad():
            assert not (x * 2).requires_grad
        with gradlib.inference_mode():
            assert (x * 2).is_inference()
        with gradlib.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            x.exp()
        assert gradlib.vmap(lambda row: row.sum())(gradlib.ones(2, 3)).tolist() == [3, 3]
        with gradlib.autograd.forward_ad.dual_level():
            dual = gradlib.autograd.forward_ad.make_dual(x.detach(), gradlib.ones(3))
            tangent = gradlib.autograd.forward_ad.unpack_dual(dual * 3).tangent
            assert tangent.tolist() == [3, 3, 3]
    assert [e.sequence_nr for e in prof.function_events if e.name == "mul"][:2] == [-1, -1]


def test_events_beyond_the_limit_are_dropped_with_a_warning():
    x = gradlib.ones(2)
    prof = profiler.profile(max_events=3)
    prof.__enter__()
    for _ in range(5):
        x * 2
    with pytest.warns(UserWarning, match=r"kept 3 events and dropped 2"):
        prof.__exit__(None, None, None)
    assert counts(prof) == {"mul": 3}


# rows: PROF-44
def test_an_op_without_profiler_knows_nothing_of_it(monkeypatch):
    def refuse(*args):
        raise AssertionError("a recorder was asked for")

    for name in ("run_inplace", "run_node", "run_root", "Span", "peek_seq"):
        monkeypatch.setattr(recording, name, refuse)
    monkeypatch.setattr("gradlib.op.interpret.peek_seq", refuse)
    x = gradlib.ones(2, requires_grad=True)
    (x * 2).exp().sum().backward()
    gradlib.ones(2).add_(1)
    mul = REGISTRY["mul"]
    mul.call(x, 2)
    known = set(mul.call.__code__.co_names)
    assert not known & {"recorder", "recording", "run_op", "PROFILE", "perf_counter_ns", "nvtx"}
    assert write.shared.active == 0


def test_counts_of_a_training_step():
    model = gradlib.nn.Sequential(
        gradlib.nn.Linear(3, 4), gradlib.nn.Tanh(), gradlib.nn.Linear(4, 1)
    )
    optimizer = gradlib.optim.SGD(model.parameters(), lr=0.1)
    with profiler.profile() as prof:
        optimizer.zero_grad()
        model(gradlib.ones(5, 3)).square().mean().backward()
        optimizer.step()
    found = Counter(e.name for e in prof.function_events)
    assert found["linear"] == 2 and found["tanh"] == 1 and found["AddmmBackward0"] == 2
    assert found["torch::autograd::AccumulateGrad"] == 4
    assert found["Optimizer.step#SGD.step"] == 1


# rows: PROF-01
@pytest.mark.host  # by NumPy's overlay; a device without one runs the formula
def test_a_gradient_that_is_computed_in_one_piece_is_one_range():
    layer, x = gradlib.nn.LayerNorm(4), gradlib.rand(2, 4, requires_grad=True)
    y = layer(x).sum()
    with profiler.profile(record_shapes=True) as prof:
        y.backward()
    node = named(prof, "NativeLayerNormBackward0")
    (inner,) = node.cpu_children
    assert inner.name == "native_layer_norm_backward"
    assert inner.input_shapes[:3] == [[2, 4], [2, 4], [4]]
    assert not inner.cpu_children and node.self_cpu_time_total < node.cpu_time_total


# rows: PROF-01
def test_a_gradient_to_be_differentiated_again_is_made_of_ops():
    layer, x = gradlib.nn.LayerNorm(4), gradlib.rand(2, 4, requires_grad=True)
    y = layer(x).sum()
    with profiler.profile() as prof:
        gradlib.autograd.grad(y, x, create_graph=True)
    names = {e.name for e in named(prof, "NativeLayerNormBackward0").cpu_children}
    assert "mul" in names and "native_layer_norm_backward" not in names
