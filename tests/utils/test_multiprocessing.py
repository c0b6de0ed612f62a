"""Tensors that processes share: what one writes the others see."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import time
from multiprocessing.reduction import ForkingPickler

import pytest

import gradlib as torch
from gradlib import multiprocessing as mp
from gradlib import nn

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="memory is passed as Unix files"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # for programs with threads
]


class Tagged(torch.Tensor):
    """A user's subclass."""


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    if request.param not in mp.get_all_sharing_strategies():
        pytest.skip("the system has no files that can be named later")
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    names = set(os.listdir("/dev/shm")) if request.param == "file_system" else set()
    yield request.param
    mp.set_sharing_strategy(before)
    gc.collect()
    if request.param == "file_system":  # names are gone with the memory
        assert not {n for n in os.listdir("/dev/shm") if len(n) == 40 and n not in names}


def test_what_a_child_writes_its_parent_sees(strategy):
    context = mp.get_context("fork")
    questions, answers = context.Queue(), context.Queue()
    base = torch.zeros(2, 3)
    row = base[1]
    questions.put(row)
    child = context.Process(target=work_on, args=(questions, answers))
    child.start()
    back = answers.get(timeout=300)
    assert base.is_shared() and row.is_shared()
    assert base.tolist() == [[0, 0, 0], [5, 5, 5]] and back.tolist() == [5, 5]
    back.fill_(7)
    assert base[1].tolist() == [5, 7, 7]
    assert back.untyped_storage() is base.untyped_storage()
    questions.put(None)
    child.join(300)
    assert child.exitcode == 0


def work_on(questions, answers):
    x = questions.get()
    x.fill_(5)
    answers.put(x[1:])
    questions.get()


def test_a_spawned_process_shares_a_module_and_all_kinds_of_tensors():
    net = nn.Linear(2, 1)
    held = {
        "tagged": torch.ones(2).as_subclass(Tagged),
        "storage": torch.zeros(3).untyped_storage(),
        "empty": torch.empty(0, 3),
        "turned": torch.arange(6.0).reshape(2, 3).t(),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "buffer": nn.Buffer(torch.ones(1)),
    }
    held["tagged"].tag = "kept"
    mp.spawn(write_all, args=(net, held), nprocs=2)
    assert torch.equal(net.weight, torch.full((1, 2), 3.0)) and net.weight.requires_grad
    assert held["tagged"].tolist() == [3, 3] and list(held["storage"])[:2] == [1, 1]
    assert held["turned"][0].tolist() == [2, 5] and held["half"].tolist() == [3, 3]
    assert held["buffer"].tolist() == [3]


def write_all(index, net, held):
    assert isinstance(net.weight, nn.Parameter) and net.weight.is_shared()
    assert type(held["tagged"]).__name__ == "Tagged" and held["tagged"].tag == "kept"
    assert held["empty"].shape == (0, 3) and held["turned"].stride() == (1, 3)
    assert held["half"].dtype == torch.bfloat16 and isinstance(held["buffer"], nn.Buffer)
    with torch.no_grad():
        if index == 0:
            net.weight.fill_(3)
            held["turned"] += 2
            held["tagged"].fill_(3), held["half"].fill_(3), held["buffer"].fill_(3)
        held["storage"][index] = 1


def test_tensors_that_share_memory_share_it_afterwards(strategy):
    x = torch.zeros(4)
    a, b = pickle.loads(ForkingPickler.dumps((x, x[1:])))
    assert a.untyped_storage() is b.untyped_storage() is x.untyped_storage()
    again = pickle.loads(ForkingPickler.dumps(x[2:]))
    again.fill_(3)
    assert x.tolist() == [0, 0, 3, 3]
    assert pickle.loads(pickle.dumps(x)).is_shared() is False  # a plain pickle is a copy


def test_what_is_recorded_is_refused_and_leaves_keep_their_flag():
    leaf = torch.ones(2, requires_grad=True)
    assert pickle.loads(ForkingPickler.dumps(leaf)).requires_grad
    with pytest.raises(RuntimeError, match="non-leaf tensor"):
        ForkingPickler.dumps(leaf * 2)


def test_graphs_go_on_after_their_tensors_were_shared():
    x = torch.arange(3.0, requires_grad=True)
    y = (x * x).sum()
    x.detach().share_memory_()
    assert x.is_shared()
    y.backward()
    assert x.grad.tolist() == [0, 2, 4]


def test_memory_on_cuda_is_refused(cuda):
    x = torch.ones(2, device="cuda")
    for value in (x, nn.Parameter(x), x.untyped_storage()):
        with pytest.raises(NotImplementedError, match=r"on cuda:0 cannot go to another process"):
            ForkingPickler.dumps(value)


def send_and_leave(queue, strategy):
    mp.set_sharing_strategy(strategy)
    queue.put(torch.ones(2))


def test_a_sender_lives_until_its_tensors_are_received(strategy):
    context = mp.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=send_and_leave, args=(queue, strategy))
    child.start()
    child.join(300)
    if strategy == "file_system":
        assert queue.get(timeout=300).tolist() == [1, 1]
        return
    with pytest.raises((EOFError, OSError), match="file_system"):
        queue.get(timeout=300)


def test_strategies_are_checked():
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(AssertionError):
        mp.set_sharing_strategy("pigeons")


def test_pools_give_tensors_back():
    with mp.get_context("fork").Pool(2) as pool:
        got = pool.map(torch.exp, [torch.zeros(2), torch.ones(2)])
    assert [g.is_shared() for g in got] == [True, True]
    assert torch.equal(got[1], torch.ones(2).exp())


def fail(index):
    if index == 1:
        raise ValueError("of the second")
    time.sleep(600)


def leave(index, how):
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(3)


def test_the_error_of_a_process_is_raised_with_its_traceback():
    with pytest.raises(mp.ProcessRaisedException, match="of the second") as caught:
        mp.start_processes(fail, nprocs=2, start_method="fork")
    error = caught.value
    assert error.error_index == 1 and error.error_pid > 0 and "in fail" in str(error)
    assert str(error).startswith("\n\n-- Process 1 terminated with the following error:\n")
    assert pickle.loads(pickle.dumps(error)).error_index == 1


@pytest.mark.parametrize(
    ("how", "text", "code", "name"),
    [
        ("exit", "process 0 terminated with exit code 3", 3, None),
        ("signal", "process 0 terminated with signal SIGKILL", -9, "SIGKILL"),
    ],
)
def test_processes_that_end_are_named(how, text, code, name):
    context = mp.start_processes(leave, (how,), join=False, start_method="fork")
    assert len(context.pids()) == 1
    with pytest.raises(mp.ProcessExitedException, match=text) as caught:
        context.join()
    assert (caught.value.exit_code, caught.value.signal_name) == (code, name)
    assert pickle.loads(pickle.dumps(caught.value)).exit_code == code


def test_names_are_pythons_and_our_own():
    import multiprocessing

    from gradlib.multiprocessing.spawn import ProcessContext

    assert mp.Process is multiprocessing.Process and mp.cpu_count() > 0
    assert mp.ProcessContext is ProcessContext and callable(mp.spawn)
    assert mp.pool.Pool and mp.get_context("spawn").get_start_method() == "spawn"
