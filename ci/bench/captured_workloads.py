"""Training steps through gradlib.capture, beside those of PyTorch in eager mode and compiled."""

import dataclasses
from functools import partial
from importlib.util import find_spec

import workloads as base
from measure import Workload
from workloads import PLAIN, How


class OfModels(How):
    """The model, or the function that is differentiated, through gradlib.compile; as it is under PyTorch."""

    def adapt(self, torch, model):
        return torch.compile(model) if torch.__name__ == "gradlib" else model


def captured(torch, step):
    """The step through gradlib.capture; as it is under PyTorch, which is compared in eager mode."""
    return torch.capture(step) if torch.__name__ == "gradlib" else step


def fused(torch, step):
    """The same with runs of elementwise ops as one kernel each."""
    return torch.capture(step, mode="max") if torch.__name__ == "gradlib" else step


def register(name, build, goal, fused_goal, model_goal=None, **settings):
    """`build(torch, device, how)` through gradlib.capture; fused as well where numba is installed.

    model_goal: of the step in which the model alone is compiled, for which there is a row then.
    """

    def add(kind, how, goal, compiled=None):
        workload = Workload(
            f"{name}-{kind}",
            partial(build, how=how),
            goal=goal,
            rtol=1e-3,
            eager=partial(build, how=PLAIN),
            compiled=compiled,
            **settings,
        )
        base.WORKLOADS.append(workload)

    add("captured", How(wrap=captured), goal, partial(build, how=How(compiled=True)))
    if model_goal is not None:
        add("compiled", OfModels(), model_goal)
    if find_spec("numba"):
        add("fused", How(wrap=fused), fused_goal)


def beside_compile(workload):
    """The workload with a column for PyTorch's compiled step."""
    if workload.compiled is None:
        return workload
    others = {**workload.others, "torch.compile": ("torch", workload.compiled)}
    return dataclasses.replace(workload, others=others)


def sgd_128(torch, device, how):
    return base.mlp(torch, device, 128, lambda p: torch.optim.SGD(p, lr=0.01), how)


register("chain", base.chain_backward, 0.4, 0.1)
register("mlp-deep", base.deep_narrow_mlp, 0.25, 0.25, 0.6)
register("mlp-sgd-128", sgd_128, 0.85, 0.75)
register("gpt", base.gpt, 0.95, 0.85, 1.05)
register("rnn", base.rnn, 0.65, 0.65, 0.75)
register("lstm", base.lstm, 0.8, 0.8, 0.9)
register("elementwise-10m", base.big_elementwise, 0.25, 0.10, slow=True)
