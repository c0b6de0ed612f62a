"""The order of work on the simulated device: only streams, events and synchronisation constrain it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulated_cuda import machine

SEEDS = range(200)


def wrong_for_some_seed(lazy_cuda, program) -> bool:
    for seed in SEEDS:
        with lazy_cuda(seed) as cuda:
            if not program(cuda):
                return True
    return False


def handed_over(cuda, waits: bool) -> bool:
    """A value made on one stream and read on another."""
    one, two = (cuda.cuda.Stream(non_blocking=True) for _ in range(2))
    with one:
        a = cuda.full(4, 3.0)
        event = one.record()
    with two:
        if waits:
            two.wait_event(event)
        return bool((a * 2).get()[0] == 6.0)


def test_reading_another_streams_value_without_waiting_is_found(lazy_cuda):
    assert wrong_for_some_seed(lazy_cuda, lambda cuda: handed_over(cuda, waits=False))
    assert not wrong_for_some_seed(lazy_cuda, lambda cuda: handed_over(cuda, waits=True))


def reused(cuda, waits: bool) -> bool:
    """Memory of one stream, freed while another stream still reads it."""
    one, two = (cuda.cuda.Stream(non_blocking=True) for _ in range(2))
    with one:
        a = cuda.full(4, 3.0)
    two.wait_event(one.record())
    with two:
        b = a + 1
        if waits:
            one.wait_event(two.record())
    del a  # back to the arena of `one`
    with one:
        c = cuda.full(4, 5.0)
    with two:
        return bool((b.get() == 4.0).all()) and c is not None


def test_reuse_of_memory_that_is_still_read_is_found(lazy_cuda):
    assert wrong_for_some_seed(lazy_cuda, lambda cuda: reused(cuda, waits=False))
    assert not wrong_for_some_seed(lazy_cuda, lambda cuda: reused(cuda, waits=True))


@pytest.mark.parametrize("seed", range(20))
def test_the_legacy_stream_takes_turns_with_blocking_streams(lazy_cuda, seed):
    with lazy_cuda(seed) as cuda:
        side = cuda.cuda.Stream()
        a = cuda.zeros(3)
        with side:
            a += 1
        a *= 10
        with side:
            a += 1
        assert a.tolist() == [11.0] * 3


def test_get_waits_for_the_current_stream_only(lazy_cuda):
    with lazy_cuda(5) as cuda:
        machine.early = machine.generous = 0.0
        side = cuda.cuda.Stream(non_blocking=True)
        with side:
            a = cuda.ones(3)
        assert np.isnan(a.get()).all()
        with side:
            assert a.tolist() == [1.0] * 3


def test_events_tell_what_is_done(lazy_cuda):
    with lazy_cuda(5) as cuda:
        machine.early = 0.0
        side = cuda.cuda.Stream(non_blocking=True)
        start, end = cuda.cuda.Event(), cuda.cuda.Event()
        start.record(side)
        with side:
            a = cuda.ones(3)
        end.record(side)
        with pytest.raises(cuda.cuda.runtime.CUDARuntimeError, match="not ready"):
            cuda.cuda.get_elapsed_time(start, end)
        end.synchronize()
        assert end.done and side.done and (a.get() == 1).all()
        assert cuda.cuda.get_elapsed_time(start, end) >= 0
        untimed = cuda.cuda.Event(disable_timing=True)
        untimed.record(side)
        side.synchronize()
        with pytest.raises(cuda.cuda.runtime.CUDARuntimeError, match="invalid resource handle"):
            cuda.cuda.get_elapsed_time(start, untimed)


def captured(cuda):
    """(graph, input, output) of out = 2 * exp(x) on two streams."""
    stream, other = (cuda.cuda.Stream(non_blocking=True) for _ in range(2))
    x, out = cuda.zeros(3), cuda.zeros(3)
    cuda.cuda.Device().synchronize()
    pool = cuda.cuda.MemoryPool()
    with stream, cuda.cuda.using_allocator(pool.malloc):
        stream.begin_capture()
        assert stream.is_capturing()
        y = cuda.exp(x)
        other.wait_event(stream.record())
        with other:
            y2 = y * 2
        stream.wait_event(other.record())
        out[...] = y2
        graph = stream.end_capture()
    return stream, graph, x, out, (pool, y, y2)


@pytest.mark.parametrize("seed", range(50))
def test_graphs_do_captured_work_again(lazy_cuda, seed):
    with lazy_cuda(seed) as cuda:
        stream, graph, x, out, keep = captured(cuda)
        assert out.tolist() == [0.0] * 3  # nothing has run yet
        for value in (0.0, 1.0):
            with stream:
                x.fill(value)
                graph.launch()
                np.testing.assert_allclose(out.get(), 2 * np.exp(value))
        assert keep and '"1" -> "2"' in graph.debug_dot_str()


def test_what_capture_refuses(lazy_cuda):
    with lazy_cuda(1) as cuda:
        a, mask = cuda.ones((3, 3)), cuda.ones(3, bool)
        ints = cuda.ones((3, 3), "i4")
        cuda.cuda.Device().synchronize()
        stream = cuda.cuda.Stream(non_blocking=True)
        with pytest.raises(RuntimeError, match="default"):
            cuda.cuda.Stream.null.begin_capture()
        with stream:
            stream.begin_capture()
            for library in (
                lambda: a @ a,
                lambda: cuda.linalg.inv(a),
                lambda: cuda.tensordot(a, a),
            ):
                with pytest.raises(NotImplementedError, match="during stream capture"):
                    library()
            for transfer in (
                a.get,
                lambda: cuda.asarray([1.0]),
                lambda: bool(a[0, 0]),
                lambda: a[mask],
            ):
                with pytest.raises(RuntimeError, match="capturing"):
                    transfer()
            assert (ints @ ints).dtype == np.int32  # CuPy's own kernel
            with pytest.raises(cuda.cuda.runtime.CUDARuntimeError, match="not permitted"):
                stream.synchronize()
            with pytest.raises(cuda.cuda.runtime.CUDARuntimeError):
                stream.end_capture()
        other = cuda.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            other.wait_event(stream.record())
            with other:
                cuda.ones(3)
            with pytest.raises(cuda.cuda.runtime.CUDARuntimeError, match="unjoined"):
                stream.end_capture()


def test_events_of_other_work_cannot_enter_a_capture(lazy_cuda):
    with lazy_cuda(1) as cuda:
        outside = cuda.cuda.Stream(non_blocking=True).record()
        stream = cuda.cuda.Stream(non_blocking=True)
        stream.begin_capture()
        with pytest.raises(cuda.cuda.runtime.CUDARuntimeError, match="uncaptured work"):
            stream.wait_event(outside)
