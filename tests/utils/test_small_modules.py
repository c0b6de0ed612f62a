"""Small modules of utils that packages import, and torch.cpu."""

from __future__ import annotations

import gc

import pytest

import gradlib as torch
from gradlib.utils import _contextlib, _foreach_utils, collect_env, file_baton, weak


def test_dictionaries_of_tensors_compare_by_identity_and_forget():
    a, b = torch.ones(2), torch.ones(2)
    held = weak.WeakTensorKeyDictionary({a: 1})
    held[b] = 2
    assert (held[a], held[b], len(held)) == (1, 2, 2) and a in held and torch.ones(2) not in held
    assert {id(k) for k in held} == {id(a), id(b)} and sorted(held.values()) == [1, 2]
    again = held.copy()
    del held[b], b
    gc.collect()
    assert len(held) == 1 and list(again.values()) == [1]
    with pytest.raises(KeyError):
        held[torch.ones(1)]
    reference = weak.TensorWeakRef(a)
    assert reference() is a and weak.WeakIdRef(a) == weak.WeakIdRef(a) != weak.WeakIdRef(
        torch.ones(1)
    )
    del a, held, again
    gc.collect()
    assert reference() is None


def test_lists_of_tensors_are_grouped():
    xs = [torch.ones(1), torch.ones(2, dtype=torch.int8), torch.ones(3)]
    groups = _foreach_utils._group_tensors_by_device_and_dtype([xs, [None, xs[1], None]], True)
    [(lists, indices), (others, places)] = groups.values()
    assert lists == [[xs[0], xs[2]], [None, None]] and indices == [0, 2]
    assert others[0][0] is xs[1] and places == [1]
    assert _foreach_utils._has_foreach_support(xs, xs[0].device)


def test_a_context_manager_decorates():
    class Double(_contextlib._DecoratorContextManager):
        depth = 0

        def __enter__(self):
            Double.depth += 1

        def __exit__(self, *exc_info):
            Double.depth -= 1

    @Double()
    def depth():
        return Double.depth

    assert depth() == 1 and Double.depth == 0


def test_a_baton_is_held_by_one(tmp_path):
    one, two = (file_baton.FileBaton(tmp_path / "lock", 0.01) for _ in range(2))
    assert one.try_acquire() and not two.try_acquire()
    one.release()
    two.wait()
    assert two.try_acquire()


def test_what_a_bug_report_says():
    assert collect_env.get_pretty_env_info().startswith("gradlib: ")
    with pytest.raises(NotImplementedError, match=r"utils\.collect_env\.get_gpu_info"):
        collect_env.get_gpu_info()


def test_the_cpu_as_a_device():
    cpu = torch.cpu
    before, other = cpu.current_stream(), cpu.Stream()
    with cpu.stream(other):
        assert cpu.current_stream() is other
        assert other.record_event().query()
    assert cpu.current_stream() is before and cpu.device_count() == 1
    assert cpu.is_available() and cpu.current_device() == "cpu" and cpu.synchronize() is None


@pytest.mark.parametrize(
    ("module", "name", "advice"),
    [
        ("utils.cpp_extension", "load_inline", "NumPy's or CuPy's"),
        ("utils.mobile_optimizer", "optimize_for_mobile", "state_dict"),
        ("utils.bundled_inputs", "bundle_inputs", "--check"),
        ("nested", "nested_tensor", "pad_sequence"),
        ("masked", "as_masked_tensor", "masked_fill"),
        ("ao.quantization", "quantize_dynamic", "bfloat16"),
        ("quantization", "prepare", "bfloat16"),
        ("package", "PackageImporter", "package"),
        ("monitor", "log_event", "--check"),
        ("autograd.profiler_legacy", "profile", "profiler"),
        ("utils.backend_registration", "rename_privateuse1_backend", "--check"),
        ("testing._internal.common_utils", "TestCase", "pytest"),
    ],
)
def test_what_is_absent_says_what_to_do(module, name, advice):
    import importlib

    refused = getattr(importlib.import_module(f"gradlib.{module}"), name)
    with pytest.raises(NotImplementedError, match=name) as caught:
        refused()
    assert advice in str(caught.value) and f"{__file__}:" in str(caught.value)
