"""The memory timeline and the explanation of its peak."""

from __future__ import annotations

import gc
import gzip
import json

import pytest

import gradlib
from gradlib.autograd import profiler
from gradlib.profiler import profile
from gradlib.profiler._memory import BACKWARD, OTHER, SAVED, MemoryBlock, MemoryTimeline, Saved

KB = 1024


def kilobytes(n=1, **options):
    return gradlib.ones(n * 256, **options)


def line(function, lines):
    return f"{__file__}:{function.__code__.co_firstlineno + lines}"


def blocks(prof, name):
    return [b for b in prof.memory_timeline().blocks if b.op == name]


def test_what_is_saved_when():
    x = kilobytes(requires_grad=True)
    with profiler.profile(profile_memory=True, with_stack=True) as prof:
        y = x.exp()  # saves its result
        z = y * y  # saves y, too
        loss = z.sum()
        del z
        loss.backward()
        del y
    here = test_what_is_saved_when
    (y,), (z, *_) = blocks(prof, "exp"), blocks(prof, "mul")
    assert y.nbytes == z.nbytes == KB and y.device == "cpu"
    assert [(s.op, s.line) for s in y.saved] == [("exp", line(here, 3)), ("mul", line(here, 4))]
    assert z.saved == () and not z.in_backward and z.line == line(here, 4)
    events = {e.name: e.time_range for e in prof.function_events}
    for saved, node in zip(y.saved, ("ExpBackward0", "MulBackward0"), strict=True):
        assert saved.end_us >= events[node].start
    assert z.end_us < events["MulBackward0"].start and y.end_us > events["ExpBackward0"].end
    assert any(b.in_backward for b in prof.memory_timeline().blocks)


def test_the_peak_names_the_line_that_saves_most():
    def model(x):
        big = kilobytes(3) * x.sum()
        little = kilobytes(1) * x.sum()
        return big.exp().sum() + little.exp().sum()

    x = gradlib.ones(1, requires_grad=True)
    with profiler.profile(profile_memory=True, with_stack=True) as prof:
        loss = model(x)
    found = prof.memory_timeline()
    saved = [row for row in found.peak if row.category == SAVED]
    assert [(row.line, row.nbytes // KB, row.ops) for row in saved[:2]] == [
        (line(model, 3), 4, ("exp",)),
        (line(model, 1), 3, ("mul",)),
    ]
    assert sum(row.nbytes for row in found.peak) == found.peak_bytes
    assert sum(row.share for row in found.peak) == pytest.approx(1)
    number = model.__code__.co_firstlineno + 3
    share = saved[0].share
    assert f"{share:.0%} is saved by test_memory.py:{number} (exp)" in found.explain()
    text = str(found)
    assert text.startswith("Memory on cpu: peak ")
    assert "return big.exp().sum() + little.exp().sum()" in text
    assert loss.item() > 0


def test_without_stacks_operations_stand_for_lines():
    x = kilobytes(requires_grad=True)
    with profiler.profile(profile_memory=True) as prof:
        y = x.exp()
    assert prof.memory_timeline().explain() == "100% is saved by exp"
    assert "(no line)" in str(prof.memory_timeline())
    assert y.shape == (256,)


def test_a_graph_that_is_kept_goes_on_saving():
    x = kilobytes(requires_grad=True)
    with profiler.profile(profile_memory=True) as prof:
        y = x.exp()
        y.sum().backward(retain_graph=True)
    (block,) = blocks(prof, "exp")
    assert block.saved[0].end_us is None and block.end_us is None
    with profiler.profile(profile_memory=True) as prof:
        y = x.exp()
        y.sum().backward()
    (block,) = blocks(prof, "exp")
    assert block.saved[0].end_us is not None and block.end_us is None


def test_a_graph_that_is_dropped_saves_nothing():
    x = kilobytes(requires_grad=True)
    with profiler.profile(profile_memory=True) as prof:
        y = x.exp()
        z = y.detach()
        del y
    (block,) = blocks(prof, "exp")
    assert block.saved[0].end_us is not None and block.end_us is None
    assert z.shape == (256,)


def test_new_tensors_have_the_name_of_the_function_that_made_them():
    with profiler.profile(profile_memory=True, with_stack=True) as prof:
        x = gradlib.zeros(256)
        y = gradlib.tensor([1.0, 2.0])
    here = test_new_tensors_have_the_name_of_the_function_that_made_them
    found = prof.memory_timeline()
    assert [(b.op, b.line, b.nbytes) for b in found.blocks] == [
        ("zeros", line(here, 2), KB),
        ("tensor", line(here, 3), 8),
    ]
    assert found.times[0] == 0 and found.sizes[0] == [0, 0, 0]
    assert found.total_at(found.peak_us) == found.peak_bytes == KB + 8
    assert len(x) + len(y) == 258


def test_gradients_and_what_nodes_keep_for_themselves():
    gradlib.manual_seed(0)
    x = kilobytes(requires_grad=True)
    with profiler.profile(profile_memory=True) as prof:
        y = gradlib.nn.functional.dropout(x, 0.5, training=True)
        y.sum().backward()
    found = prof.memory_timeline()
    gradients = [b for b in found.blocks if b.in_backward and b.end_us is None]
    assert sum(b.nbytes for b in gradients) == KB  # x.grad
    assert x.grad is not None
    last = dict(zip(found.categories, found.sizes[-1], strict=True))
    assert last[BACKWARD] == KB and last[SAVED] == 0


def test_memory_from_before_does_not_count():
    x, y = kilobytes(requires_grad=True), kilobytes()
    x.grad = kilobytes()
    with profiler.profile(profile_memory=True) as prof:
        (x * y).sum().backward()
    named = {b.op for b in prof.memory_timeline().blocks}
    assert "torch::autograd::AccumulateGrad" not in named
    assert all(b.saved == () for b in blocks(prof, "mul"))


def block(op, nbytes, start, end, in_backward=False, saved=()):
    return MemoryBlock(op, f"{op}.py:1", nbytes, "cpu", start, end, in_backward, tuple(saved))


def test_curve_by_category():
    twice = [Saved("b", "b.py:7", 2, 5), Saved("c", "c.py:8", 4, 8)]
    found = MemoryTimeline(
        [block("a", 10, 1, 9, saved=twice), block("g", 5, 3, 4, in_backward=True), block("z", 1, 9, None)],
        "cpu",
    )  # fmt: skip
    assert dict(zip(found.times, found.sizes, strict=True)) == {
        0: [0, 0, 0],
        1: [0, 0, 10],
        2: [10, 0, 0],
        3: [10, 5, 0],
        4: [10, 0, 0],
        8: [0, 0, 10],
        9: [0, 0, 1],
    }
    assert (found.peak_us, found.peak_bytes) == (3, 15)
    assert [(r.category, r.line, r.ops, r.blocks) for r in found.peak] == [
        (SAVED, "b.py:7", ("b",), 1),
        (BACKWARD, "g.py:1", ("g",), 1),
    ]
    assert found.blocks[0].saved_at(6).op == "c"
    assert found.explain() == ("67% is saved by b.py:7 (b), 33% was made in backward of g.py:1 (g)")
    shifted = found.blocks[0].shifted(100)
    assert (shifted.start_us, shifted.end_us, shifted.saved[0].end_us) == (101, 109, 105)
    assert found.categories == (SAVED, BACKWARD, OTHER)


def test_nothing_was_allocated():
    with profiler.profile(profile_memory=True) as prof:
        pass
    found = prof.memory_timeline()
    assert (found.peak_bytes, found.peak) == (0, [])
    assert found.explain() == "nothing was allocated on cpu"
    assert str(found) == "Memory on cpu: peak 0 B at 0.000us"


def test_a_timeline_for_each_device(cuda):
    with profiler.profile(profile_memory=True, use_device="cuda") as prof:
        a = kilobytes(2) * 2
        b = kilobytes(1, device="cuda:1") * 2
        gradlib.cuda.synchronize()
    assert prof.memory_timeline().device == "cpu"
    second = prof.memory_timeline("cuda:1")
    assert second.peak_bytes == 2 * KB and {x.op for x in second.blocks} == {"ones", "mul"}
    assert prof.memory_timeline(gradlib.device("cuda", 1)).peak_bytes == 2 * KB
    assert prof.memory_timeline("cuda").peak_bytes == 0
    assert len(a) + len(b) == 768


@pytest.mark.parametrize("kind", [profiler.profile, profile])
def test_files(tmp_path, kind):
    x = kilobytes(requires_grad=True)
    with kind(profile_memory=True) as prof:
        x.exp().sum().backward()
    found = prof.memory_timeline()
    prof.export_memory_timeline(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == [found.times, found.sizes]
    prof.export_memory_timeline(str(tmp_path / "a.json.gz"), device="cpu")
    packed = gzip.decompress((tmp_path / "a.json.gz").read_bytes())
    assert json.loads(packed) == [found.times, found.sizes]
    prof.export_memory_timeline(tmp_path / "a.raw.json.gz")
    raw = json.loads(gzip.decompress((tmp_path / "a.raw.json.gz").read_bytes()))
    assert raw == sorted(raw, key=lambda point: point[0])
    assert {action for _, action, _, _ in raw} == {"CREATE", "DESTROY"}
    assert [0, "CREATE", KB, SAVED] in [[0, *rest] for _, *rest in raw]
    prof.export_memory_timeline(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    with pytest.raises(ValueError, match=r"\.raw\.json\.gz files, not '.*a\.png'"):
        prof.export_memory_timeline(tmp_path / "a.png")


def test_memory_must_have_been_recorded(tmp_path):
    with profiler.profile() as prof:
        gradlib.ones(2) * 2
    for action in (prof.memory_timeline, lambda: prof.export_memory_timeline(tmp_path / "a.html")):
        with pytest.raises(RuntimeError, match=r"record with profile\(profile_memory=True\)"):
            action()


def test_the_profile_keeps_nothing_alive():
    x = kilobytes(requires_grad=True)
    with profiler.profile(profile_memory=True) as prof:
        loss = x.exp().sum()
        kept_by = gc.get_referrers(loss._array)
        loss.backward()
    assert not any(type(r).__module__.startswith("gradlib.profiler._blocks") for r in kept_by)
    assert prof.memory_timeline().total_at(float("inf")) <= KB + 4 + KB
