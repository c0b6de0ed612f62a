"""Parameter groups, state dicts, hooks and error texts of Optimizer."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradlib
from gradlib import optim
from gradlib.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


def leaf(*shape):
    return gradlib.ones(*shape, requires_grad=True)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda: optim.SGD(leaf(1)), TypeError, "should be an iterable of Tensors or dicts"),
        (lambda: optim.SGD([3]), TypeError, "optimizer can only optimize Tensors"),
        (lambda: optim.SGD([leaf(1) * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda: optim.SGD([leaf(1)], lr=-1.0), ValueError, "Invalid learning rate: -1.0"),
        (lambda: optim.SGD([leaf(1)], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (
            lambda: optim.SGD([leaf(1)], nesterov=True),
            ValueError,
            "Nesterov momentum requires a momentum and zero dampening",
        ),
        (
            lambda: optim.Adam([leaf(1)], betas=(1.0, 0.9)),
            ValueError,
            "Invalid beta parameter at index 0: 1.0",
        ),
        (lambda: optim.Adam([leaf(1)], eps=-1.0), ValueError, "Invalid epsilon value: -1.0"),
        (
            lambda: optim.SGD([{"params": {leaf(1)}}]),
            TypeError,
            "optimizer parameters need to be organized in ordered collections",
        ),
        (
            lambda: optim.Adam([leaf(1)], fused=True, foreach=True),
            RuntimeError,
            "`fused` and `foreach` cannot be `True` together.",
        ),
    ],
)
def test_wrong_arguments(make, error, text):
    with pytest.raises(error, match=text.replace("(", r"\(")):
        make()


def test_groups_take_defaults_and_keep_their_own_settings():
    a, b = leaf(1), leaf(2)
    opt = optim.SGD([{"params": a}, {"params": [b], "lr": 0.5}], lr=0.1)
    assert [g["lr"] for g in opt.param_groups] == [0.1, 0.5]
    assert opt.param_groups[0]["params"] == [a]
    opt.add_param_group({"params": leaf(3), "momentum": 0.9})
    assert opt.param_groups[2]["momentum"] == 0.9
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        opt.add_param_group({"params": b})


def test_named_parameters():
    net = gradlib.nn.Linear(2, 1)
    opt = optim.SGD(net.named_parameters())
    assert opt.param_groups[0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="cannot add param group without names"):
        opt.add_param_group({"params": leaf(1)})


def test_duplicate_parameters_warn():
    a = leaf(1)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([a, a])


def test_state_dict_numbers_parameters_in_order():
    a, b, c = leaf(1), leaf(2), leaf(3)
    opt = optim.Adam([{"params": [a, b]}, {"params": [c]}])
    c.grad = gradlib.ones(3)
    opt.step()
    state = opt.state_dict()
    assert [g["params"] for g in state["param_groups"]] == [[0, 1], [2]]
    assert list(state["state"]) == [2]
    assert list(state["state"][2]) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["state"][2]["step"].item() == 1.0


def test_load_state_dict_checks_and_casts():
    a = leaf(2)
    opt = optim.Adam([a], lr=0.5)
    a.grad = gradlib.ones(2)
    opt.step()
    saved = opt.state_dict()
    other = optim.Adam([gradlib.ones(2, dtype=gradlib.float64, requires_grad=True)])
    other.load_state_dict(saved)
    assert other.param_groups[0]["lr"] == 0.5
    (state,) = other.state.values()
    assert state["exp_avg"].dtype == gradlib.float64
    assert state["step"].dtype == gradlib.float32
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.Adam([{"params": leaf(2)}, {"params": leaf(1)}]).load_state_dict(saved)
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optim.Adam([leaf(2), leaf(1)]).load_state_dict(saved)


def test_deepcopy_and_pickle_keep_the_state_apart():
    a = leaf(2)
    opt = optim.Adam([a])
    a.grad = gradlib.ones(2)
    opt.step()
    for other in (copy.deepcopy(opt), pickle.loads(pickle.dumps(opt))):
        (p,) = other.param_groups[0]["params"]
        assert p is not a
        p.grad = gradlib.ones(2)
        other.step()
        assert other.state[p]["step"].item() == 2.0
        assert opt.state[a]["step"].item() == 1.0


def test_step_hooks_run_in_order_and_can_be_removed():
    a, seen = leaf(1), []
    opt = optim.SGD([a])
    handles = [
        opt.register_step_pre_hook(lambda o, args, kwargs: seen.append("pre")),
        opt.register_step_post_hook(lambda o, args, kwargs: seen.append("post")),
        register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("all pre")),
        register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("all post")),
    ]
    a.grad = gradlib.ones(1)
    try:
        opt.step()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["all pre", "pre", "post", "all post"]
    opt.step()
    assert len(seen) == 4


def test_state_dict_hooks():
    a = leaf(1)
    opt = optim.SGD([a])
    opt.register_state_dict_post_hook(lambda o, state: {**state, "note": 1})
    assert opt.state_dict()["note"] == 1
    seen = []
    opt.register_load_state_dict_pre_hook(lambda o, state: seen.append(sorted(state)))
    opt.register_load_state_dict_post_hook(lambda o: seen.append("done"))
    opt.load_state_dict(opt.state_dict())
    assert seen == [["note", "param_groups", "state"], "done"]


def test_zero_grad_keeps_or_drops_the_gradient():
    a = leaf(2)
    a.grad = held = gradlib.ones(2)
    opt = optim.SGD([a])
    opt.zero_grad(set_to_none=False)
    assert a.grad is held
    assert held.tolist() == [0.0, 0.0]
    opt.zero_grad()
    assert a.grad is None


def test_closure_runs_with_gradients_enabled():
    a = leaf(1)
    opt = optim.SGD([a], lr=1.0)

    def closure():
        opt.zero_grad()
        loss = (a * 2).sum()
        loss.backward()
        return loss

    with gradlib.no_grad():
        assert opt.step(closure).item() == 2.0
    assert a.item() == -1.0


def test_repr_lists_settings():
    text = repr(optim.SGD([leaf(1)], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.1\n" in text
    assert text.endswith("\n)")


def test_subclass_with_its_own_step():
    class Halve(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"factor": 0.5})

        def step(self, closure=None):
            with gradlib.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.mul_(group["factor"])

    a, seen = leaf(1), []
    opt = Halve([a])
    opt.register_step_post_hook(lambda *_: seen.append(1))
    opt.step()
    assert a.item() == 0.5
    assert seen == [1]


def test_a_capturable_step_wants_cuda():
    p = gradlib.ones(2, requires_grad=True, device="cpu")
    p.grad = gradlib.ones(2, device="cpu")
    with pytest.raises(AssertionError, match="If capturable=True, params and state_steps must be"):
        gradlib.optim.Adam([p], capturable=True).step()


def test_foreach_and_differentiable_do_not_go_together():
    p = gradlib.ones(2, requires_grad=True)
    p.grad = gradlib.ones(2)
    with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
        gradlib.optim.Adam([p], foreach=True, differentiable=True).step()


def test_muon_and_lbfgs_check_added_groups_when_they_step():
    p, q = gradlib.eye(2, requires_grad=True), gradlib.ones(2, requires_grad=True)
    for name, error in (("Muon", ValueError), ("LBFGS", AssertionError)):
        optimizer = getattr(gradlib.optim, name)([p])
        optimizer.add_param_group({"params": [q]})
        (p.sum() + q.sum()).backward()
        with pytest.raises(error):
            optimizer.step(lambda: (p * p).sum())
