"""DistributedDataParallel: the same weights as one process, the same bits on all ranks, each feature, each fault.

What runs on the ranks is in `ddp_programs`, `ddp_features` and `ddp_beside`: one start of processes runs it all.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as torch
from gradlib.distributed._buckets import assign
from gradlib.optim import AdamW
from tests.distributed import ddp_beside, ddp_features, ddp_programs
from tests.distributed.harness import run

RUNS = [
    {},
    {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.001},
    {"bucket_cap_mb": 0.002, "static_graph": True},
]


def train_all():
    """The weights of each run of each model."""
    return {
        (kind, i): ddp_programs.train(kind, **options)
        for kind in ("cnn", "gpt")
        for i, options in enumerate(RUNS)
    }


@pytest.fixture(scope="module", params=[2, 3])
def trained(request):
    return run(train_all, request.param)


@pytest.mark.parametrize("kind", ["cnn", "gpt"])
def test_weights_are_those_of_one_process_on_the_whole_batch(trained, kind):
    """After 20 steps, to 1e-6; and bitwise the same on all ranks, although they began with other weights."""
    wanted = ddp_programs.train_alone(kind)
    for i in range(len(RUNS)):
        for name, value in wanted.items():
            np.testing.assert_allclose(trained[0][kind, i][name], value, rtol=0, atol=1e-6)
            for other in trained[1:]:
                np.testing.assert_array_equal(other[kind, i][name], trained[0][kind, i][name])


def run_features():
    """In each process: importing them has put all features on the list."""
    assert ddp_features and ddp_beside
    return ddp_programs.run_all()


@pytest.fixture(scope="module")
def ranks():
    return run(run_features, 2)


@pytest.fixture
def gave(ranks, request):
    """What the feature of this test's name gave on each rank."""
    name = request.node.name.removeprefix("test_")
    for answers in ranks:
        kind, value, _ = answers[name]
        assert kind == "gave", value
    return [answers[name][1] for answers in ranks]


@pytest.fixture
def warned(ranks, request):
    """The warnings of each rank."""
    return [answers[request.node.name.removeprefix("test_")][2] for answers in ranks]


def on_all(gave, value):
    assert gave == [value] * len(gave)


def test_all_features_have_a_test():
    assert {f"test_{name}" for name in ddp_programs.FEATURES} <= set(globals())


# -- buckets and hooks ---------------------------------------------------------------------------------------------


def test_tensors_of_one_kind_share_a_bucket_until_it_is_full():
    tensors = [torch.zeros(n) for n in (2, 2, 4, 1)]
    tensors.insert(1, torch.zeros(2, dtype=torch.float64))
    assert assign(tensors, [8, 16]) == [[0], [1], [2, 3], [4]]
    assert assign(tensors, [8, 16], order=[4, 3, 2, 1, 0]) == [[4, 3], [1], [2, 0]]


def test_buckets(gave):
    assert gave[0] == gave[1]
    small, searching, usual = gave[0]
    shapes = [(100,), (100, 100), (200,), (200, 100), (300,), (300, 200)]
    assert small[0] == [(0, True, (90600,), shapes)]  # before the order is known: one bucket
    assert len(small[1]) == 3 and small[1] == small[2]
    assert [b[:2] for b in small[1]] == [(0, False), (1, False), (2, True)]
    assert small[1][0][3][0] == (300, 200) or small[1][0][3][1] == (
        300,
        200,
    )  # the last layer first
    assert sorted(shape for b in small[1] for shape in b[3]) == shapes
    assert searching[0] == searching[1] == searching[2]
    assert [b[2] for b in searching[0]] == [(300,), (60200,), (30100,)]  # PyTorch's
    assert usual[0] == usual[1]  # below 1 MiB


def test_bucket_facts(gave):
    assert gave[0]["has_rebuilt_buckets"] == 1 and gave[0]["bucket_sizes"] == "4"
    assert [g["rank"] for g in gave] == [0, 1]


def test_hooks(gave):
    for views in (False, True):
        plain, *exact = gave[0][views][:3]
        for other in exact:
            for name, value in plain.items():
                np.testing.assert_allclose(other[name], value, rtol=0, atol=1e-7)
        for halves, tolerance in zip(gave[0][views][3:], (2e-2, 2e-3, 2e-3)):
            change = max(np.abs(halves[name] - value).max() for name, value in plain.items())
            assert 0 < change < tolerance
        for one, two in zip(gave[0][views], gave[1][views]):
            assert all((one[name] == two[name]).all() for name in one)


def test_power_sgd(gave):
    (plain, full, thin, batched), (rate, before, after) = gave[0]
    for name, value in plain.items():
        np.testing.assert_allclose(full[name], value, rtol=0, atol=1e-5)
    for other in (thin, batched):
        assert 1e-5 < max(np.abs(other[n] - v).max() for n, v in plain.items()) < 0.1
    assert rate == before / after > 1
    for one, two in zip(gave[0][0], gave[1][0]):
        assert all((one[name] == two[name]).all() for name in one)


def test_hook_errors(gave):
    on_all(
        gave,
        (
            "TypeError: Communication hook must be callable.",
            "ValueError: Communication hook: bucket annotation should be dist.GradBucket.",
            "ValueError: Communication hook: return annotation should be torch.futures.Future[torch.Tensor].",
            "RuntimeError: register_comm_hook or register_builtin_comm_hook can only be called once.",
        ),
    )


def test_builtin_hooks(gave):
    on_all(gave, [1.5, 1.5])


# -- several backward passes ---------------------------------------------------------------------------------------


def test_accumulation(gave):
    """Rank r has the gradient r + 1: 2 (r + 1) after two passes, and an average of 3 * 1.5 after the third."""
    assert gave[0] == [(2.0, 4.5), (2.0, 4.5), (6.5, 9.0)] * 2
    assert gave[1] == [(4.0, 4.5), (4.0, 4.5), (8.5, 9.0)] * 2


def test_retained_graph(gave):
    """PyTorch does not average the second pass, and the ranks drift apart."""
    on_all(gave, (1.5, 3.0))


def test_two_forwards_one_backward(gave):
    on_all(gave, 16.5)


def test_module_alone(gave):
    assert gave == [1.0, 2.0]


def test_grad_of_inputs(gave):
    on_all(gave, (1.0, 0, 1, 1.5))


def test_double_backward(gave):
    """m = 2.5: 2 w m = 5, and 8 w m^2 = 50."""
    on_all(gave, (5.0, 50.0))


def test_gradient_penalty(gave):
    on_all(gave, 40.0)


def test_different_numbers_of_forwards(gave, warned):
    on_all(gave, 7.5)
    assert warned == [[], []]


# -- parameters without gradient -----------------------------------------------------------------------------------


def test_unused_here(gave, warned):
    on_all(gave, [[[1.5], [0.5]]] * 3)
    assert warned[0] == []
    [text] = warned[1]
    assert "no gradient has reached b.weight on rank 1" in text and "find_unused_parameters" in text


def test_unused_everywhere(gave, warned):
    on_all(gave, ([[1.5], [5.0]], [[1.5], None]))
    assert warned == [[], []]


def test_cut_path(gave, warned):
    on_all(gave, [[1.5], None])
    for [text] in warned:
        assert (
            "b.weight: no gradient: AddmmBackward0 uses the memory of this tensor, but detached"
            in text
        )
        assert "self.b.weight.detach()" in text


def test_changing_use(gave):
    on_all(gave, [[[0.5], [1.0]], [[1.0], [0.5]]] * 2)


def test_unused_with_hook(gave):
    on_all(gave, ([[1.5], [0.5]], [[1.5], None]))


def test_accumulated_but_unused(gave):
    on_all(gave, [[3.0], [1.5]])


def test_frozen(gave):
    on_all(gave, ([[1.5], None], 1))


def test_skipped(gave):
    on_all(gave, ([[1.5], None], 1))


def test_lost_step(gave, warned):
    on_all(gave, 3)
    for rank, [text] in enumerate(warned):
        assert "different steps" in text and f"rank {rank} has run {1 - rank} forward(s)" in text


# -- forms of modules ----------------------------------------------------------------------------------------------


def test_outputs(gave):
    on_all(gave, {"tensor": 6.0, "tuple": 6.0, "dict": 6.0, "dataclass": 6.0})


def test_checkpointed(gave):
    for twice in (False, True):
        for kind in (False, True):
            for rank in (0, 1):
                for got, wanted in zip(gave[rank][twice, kind], gave[0][twice, "plain"]):
                    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_copies(gave):
    for values, keys, text in gave:
        assert values == [1.5, 1.5] and keys == ["module.weight"]
        assert text.startswith(
            "RuntimeError: DDP Pickling/Unpickling are only supported when using DDP with the default"
        )


def test_module_hooks(gave):
    on_all(gave, (["pre", "inner", "post", "backward"], 1.5))


def test_wrapped_again(gave):
    on_all(gave, (1.5, 2))


def test_channels_last(gave):
    on_all(gave, ((27, 1, 9, 3), True))


def test_buffers(gave):
    """(taken over at construction, after a forward, at the next forward; and without all that)."""
    assert gave == [(7.0, 1.0, 1.0, 1.0), (7.0, 2.0, 1.0, 2.0)]


def test_mixed_precision(gave):
    half, whole = "torch.bfloat16", "torch.float32"
    on_all(gave, ([half, half, half, half, whole, whole], [1.5] * 4, half))


def test_delayed(gave):
    on_all(gave, [[1.5], [1.5]])


# -- errors --------------------------------------------------------------------------------------------------------


def test_different_models(gave):
    shape, number, name, dtype = gave[0]
    assert gave[0] == gave[1]
    assert (
        "[1]: params[0] in this process with sizes [3, 2] appears not to match sizes of the same param"
        in shape
    )
    assert "layer.weight of shape [3, 2]" in shape
    assert (
        "Rank 0 has 2 params, while rank 1 has inconsistent 4 params. Only rank 1 has 1.weight, 1.bias"
        in number
    )
    assert "other.weight" in name and "layer.weight" in name
    assert "torch.float64" in dtype


def test_checked(gave):
    """Rank 1 writes to a parameter after step 3; parameters are compared every 2 steps."""
    for quiet, text, by_hand in gave:
        assert quiet == "nothing"
        assert (
            "weight (1, 1) is not the same on all ranks after step 4: rank 0 against rank 1" in text
        )
        assert "after step 9" in by_hand


def test_failed_backward(gave):
    for first, second in gave:
        assert first.startswith("ValueError: no gradient today")
        assert second.startswith(
            "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."
        )


def test_arguments(gave):
    """PyTorch's texts."""
    texts = gave[0]
    assert texts[0] == (
        "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
        "gradient."
    )
    assert texts[1] == (
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device/"
        "multiple-device GPU modules or CPU modules, but got device_ids [0], output_device None, and module parameters "
        "{device(type='cpu')}."
    )
    assert texts[2] == "ValueError: device_ids can only be None or contain a single element."
    assert "Cannot specify both process_group and device_mesh arguments." in texts[3]
    assert "need to be set at the same time" in texts[4]
    assert "Run a dummy forward pass" in texts[5]
    assert "check_every must be 0 or more" in texts[6]


# -- uneven inputs -------------------------------------------------------------------------------------------------


def test_uneven(gave):
    """Rank r has 1 + 2 r steps: 1 - 0.15, then 0.1 or 0.2 less twice, 2 over both ranks, or one."""
    for all_ranks, left in gave:
        assert all_ranks == pytest.approx(0.65) and left == pytest.approx(0.45)


def test_uneven_with_buffers(gave):
    assert gave[0] == gave[1] and gave[0][0] == 3


def test_uneven_thrown(gave):
    assert gave == [
        "RuntimeError: Rank 0 exhausted all inputs.",
        "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks.",
    ]


def test_uneven_with_zero(gave):
    """Rank 0 has one step and rank 1 two, and each updates one of two parameters: 1 - 0.15 - 0.1 for both."""
    for values in gave:
        assert values == pytest.approx([0.75, 0.75])


# -- what stands beside it -----------------------------------------------------------------------------------------


def test_zero(gave):
    model = ddp_programs.make("gpt")
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = AdamW(
        groups, lr=0.01, eps=1e-3
    )  # of key biases, which have gradients of rounding errors alone
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for step in range(6):
        x, y = ddp_programs.batch("gpt", step)
        optimizer.zero_grad()
        ddp_programs.loss_of(model(x), y).backward()
        optimizer.step()
        scheduler.step()
    wanted = ddp_programs.weights(model)
    total = sum(p.numel() for p in model.parameters())
    for ours, theirs in zip(*gave):
        for name, value in wanted.items():
            np.testing.assert_allclose(ours[0][name], value, rtol=0, atol=1e-6)
            np.testing.assert_array_equal(ours[0][name], theirs[0][name])
        assert "consolidate_state_dict(to=0)" in ours[1] and "(to=1)" in theirs[1]
        assert ours[3] + theirs[3] == total and max(ours[3], theirs[3]) < 0.6 * total
        saved = ours[2]
        before = optimizer.state_dict()
        assert saved["state"].keys() == before["state"].keys()
        for number, state in before["state"].items():
            assert torch.allclose(state["exp_avg"], saved["state"][number]["exp_avg"], atol=1e-5)
        assert saved["param_groups"][0]["params"] == before["param_groups"][0]["params"]
        assert saved["param_groups"][0]["lr"] == before["param_groups"][0]["lr"]
        optimizer.load_state_dict(saved)  # that of one process can


def test_zero_refuses(gave):
    assert all(
        text.startswith("NotImplementedError: ZeroRedundancyOptimizer: overlap_with_ddp")
        for text in gave
    )


def test_sync_batch_norm(gave):
    on_all(gave, ([[True] * 7, [True] * 5], "torch.bfloat16", "torch.bfloat16"))


def test_averaged_models(gave):
    """Two steps on averaged gradients, then each rank its own, and averages after the third and fifth."""
    for rank, (values, step, texts) in enumerate(gave):
        apart = 0.55 - 0.1 * (rank + 1)
        assert values == pytest.approx([0.85, 0.7, 0.55, apart, 0.25], abs=1e-6)
        assert step == 5
        assert "``period`` must be a positive" in texts[0] and "non-negative" in texts[1]
