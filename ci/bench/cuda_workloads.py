"""What `python ci/bench --device cuda` runs: overhead of ops, training steps, memory, streams, bandwidth, profiler.

Names say what is measured; the goals are ratios to PyTorch in eager mode, or values of the row's unit.
"""

import dataclasses
import time

import competitors
import resnet
import workloads as base
from measure import Figure, Workload
from workloads import How, Sizes, Source

CAPTURE_WARM_UP = 3  # calls before a step is captured, as in gradlib.cuda.capture


@dataclasses.dataclass(frozen=True)
class Scale:
    """How big everything is."""

    batch: int  # of the MLP
    hidden: int
    images: int
    channels: int
    gpt: Sizes
    gpt2: Sizes
    pointwise: int  # elements, of 4 bytes
    branch: int  # width of the products on two streams
    branch_depth: int
    resnet: resnet.Sizes


FULL = Scale(
    4096,
    4096,
    256,
    64,
    Sizes(8192, 512, 512, 6, 8, 16),
    Sizes(50304, 1024, 768, 12, 12, 8),
    1 << 28,
    1024,
    40,
    resnet.Sizes(),
)
_SMALL = Sizes(16, 8, 8, 1, 2, 2)
QUICK = Scale(16, 32, 2, 2, _SMALL, _SMALL, 1 << 12, 16, 2, resnet.Sizes(2, 16, 4, (1, 1), 3))

KINDS = {"float32": How(), "tf32": How(tf32=True), "bf16": How(half="bfloat16")}
RTOL = {"float32": 1e-3, "tf32": 1e-2, "bf16": 3e-2}


# -- steps captured as CUDA graphs -------------------------------------------------------------------------------------


def captured(torch, step):
    """The step through gradlib.cuda.capture; as it is under PyTorch, which is compared in eager mode."""
    return torch.cuda.capture(step) if torch.__name__ == "gradlib" else step


class TorchGraph:
    """A step through torch.cuda.CUDAGraph: some plain calls on a side stream, then launches of the graph."""

    def __init__(self, torch, step):
        self.torch, self.step = torch, step
        self.calls, self.graph, self.result = 0, None, None

    def __call__(self):
        cuda = self.torch.cuda
        if self.calls < CAPTURE_WARM_UP:
            self.calls += 1
            side, here = cuda.Stream(), cuda.current_stream()
            side.wait_stream(here)
            with cuda.stream(side):
                result = self.step()
            here.wait_stream(side)
            return result
        if self.graph is None:
            self.graph = cuda.CUDAGraph()
            with cuda.graph(self.graph):
                self.result = self.step()
        self.graph.replay()
        return self.result.clone()


# -- timed workloads ---------------------------------------------------------------------------------------------------


def chains():
    """What an op of 16 elements costs."""
    made = []
    goals = {"chain-no-grad": None, "chain-recording": None, "chain-backward": 1.5}
    for workload in base.WORKLOADS:
        if workload.name in goals:
            others = competitors.CHAINS.get(workload.name, {})
            made.append(dataclasses.replace(workload, goal=goals[workload.name], others=others))
    return made


def steps(name, build, rivals):
    """Training steps at three precisions, beside torch.compile and those of `rivals` at float32."""
    made = []
    for kind, how in KINDS.items():

        def run(torch, device, how=how):
            return build(torch, device, how)

        def compiled(torch, device, how=how):
            return build(torch, device, dataclasses.replace(how, compiled=True))

        others = {"torch.compile": ("torch", compiled)}
        if kind == "float32":
            others |= rivals
        made.append(Workload(f"{name}-{kind}", run, goal=1.1, rtol=RTOL[kind], others=others))
    return made


def captures(name, build, goal):
    """A step captured by gradlib beside PyTorch's eager step and PyTorch's own graph."""

    def run(torch, device):
        return build(torch, device, How(wrap=captured))

    def graph(torch, device):
        return build(torch, device, How(wrap=TorchGraph))

    return Workload(
        f"{name}-captured", run, goal=goal, rtol=1e-3, others={"torch.graph": ("torch", graph)}
    )


def timed(scale):
    """All workloads that are timed."""

    def adam(torch):
        return lambda p: torch.optim.Adam(p, lr=1e-4, capturable=True)

    def small_mlp(torch, device, how):
        return base.mlp(torch, device, 128, adam(torch), how)

    def mlp(torch, device, how):
        def sgd(parameters):
            return torch.optim.SGD(parameters, lr=0.01)

        return base.mlp(torch, device, scale.batch, sgd, how, scale.hidden)

    def cnn(torch, device, how):
        return base.cnn(torch, device, how, scale.images, scale.channels)

    def gpt(torch, device, how):
        return base.gpt(torch, device, how, scale.gpt)

    def capturable_gpt(torch, device, how):
        return base.gpt(torch, device, how, scale.gpt, capturable=True)

    def gpt2(torch, device):
        return base.gpt(torch, device, KINDS["bf16"], scale.gpt2)

    def gpt2_compiled(torch, device):
        return base.gpt(torch, device, How(half="bfloat16", compiled=True), scale.gpt2)

    return [
        *chains(),
        captures("mlp-deep", base.deep_narrow_mlp, 0.3),
        captures("mlp-small", small_mlp, 0.3),
        *steps("mlp", mlp, competitors.mlp(scale.batch, scale.hidden)),
        *steps("cnn", cnn, {}),
        *steps("gpt", gpt, competitors.gpt(scale.gpt)),
        captures("gpt", capturable_gpt, None),
        Workload(
            "gpt2-small-bf16",
            gpt2,
            goal=1.1,
            rtol=RTOL["bf16"],
            others={"torch.compile": ("torch", gpt2_compiled)},
        ),
        Workload("resnet50-bf16", resnet50(scale), goal=1.1, rtol=RTOL["bf16"]),
    ]


def resnet50(scale):
    """A training step under autocast."""
    return lambda torch, device: resnet.step(torch, device, KINDS["bf16"], scale.resnet)


# -- figures -----------------------------------------------------------------------------------------------------------


def peak_memory(build):
    """MiB above what the built step holds, at the peak of its third call."""

    def measure(torch, device, clock):
        step = build(torch, device)
        for _ in range(2):
            step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - held) / 2**20

    return measure


def speed_up_by_streams(scale):
    """Time of two independent branches one after the other, over their time on two streams; forward and backward."""

    def measure(torch, device, clock):
        source = Source(torch, device)
        width = scale.branch
        weights = [source.weight(width, width) for _ in range(2)]
        x = source.normal(64, width)
        side = torch.cuda.Stream()

        def branch(weight):
            h = x
            for _ in range(scale.branch_depth):
                h = torch.tanh(h @ weight)
            return h.sum()

        def serial():
            loss = branch(weights[0]) + branch(weights[1])
            loss.backward()
            return loss.detach()

        def parallel():
            here = torch.cuda.current_stream()
            side.wait_stream(here)
            with torch.cuda.stream(side):
                right = branch(weights[1])
            left = branch(weights[0])
            here.wait_stream(side)
            loss = left + right
            loss.backward()
            return loss.detach()

        # Launching is what takes the time of small kernels: captured, the device alone decides.
        times = []
        for step in (serial, parallel):
            for weight in weights:
                weight.grad = None
            times.append(seconds_of(TorchGraph(torch, step), clock))
        return times[0] / times[1]

    return measure


def seconds_of(function, clock, calls=10):
    clock.time(function, 1 + CAPTURE_WARM_UP)
    return max(clock.time(function, calls), 1e-9)


def share_of_bandwidth(scale, backward):
    """Bytes that gelu must move, per second, in percent of what a plain copy moves."""

    def measure(torch, device, clock):
        x = torch.ones(scale.pointwise, device=device, requires_grad=True)
        out = torch.empty(scale.pointwise, device=device)

        def copy():
            with torch.no_grad():
                out.copy_(x)

        copied = 2 * x.numel() / seconds_of(copy, clock)
        if backward:
            y = torch.nn.functional.gelu(x)
            moved = 3 * x.numel()  # reads g and x, writes the gradient

            def run():
                torch.autograd.grad(y, x, out, retain_graph=True)
        else:
            moved = 2 * x.numel()

            def run():
                with torch.no_grad():
                    torch.nn.functional.gelu(x)

        return 100 * moved / seconds_of(run, clock) / copied

    return measure


def copy_bandwidth(scale):
    """GB/s of a plain copy, counting what is read and what is written."""

    def measure(torch, device, clock):
        x, out = (torch.ones(scale.pointwise, device=device) for _ in range(2))
        return 2 * 4 * x.numel() / seconds_of(lambda: out.copy_(x), clock) / 1e9

    return measure


def profiler_overhead(torch, device, clock):
    """Seconds that the profiler with CUDA events adds to an op, by the host's clock."""
    x, ops = torch.ones(16, device=device), 500

    def chain():
        y = x
        for _ in range(ops):
            y = y * 1.0

    def seconds():
        torch.cuda.synchronize()
        begin = time.perf_counter()
        chain()
        return time.perf_counter() - begin

    chain()
    plain, profiled = [], []
    for _ in range(5):
        plain.append(seconds())
        with torch.autograd.profiler.profile(use_device="cuda"):
            profiled.append(seconds())
    return (min(profiled) - min(plain)) / ops


def figures(scale):
    """All figures that are no times."""

    def gpt(torch, device):
        return base.gpt(torch, device, KINDS["bf16"], scale.gpt)

    def gpt2(torch, device):
        return base.gpt(torch, device, KINDS["bf16"], scale.gpt2)

    return [
        Figure("gpt-bf16-peak", peak_memory(gpt), "MiB", rounds=1),
        Figure("gpt2-small-bf16-peak", peak_memory(gpt2), "MiB", rounds=1),
        Figure("resnet50-bf16-peak", peak_memory(resnet50(scale)), "MiB", rounds=1),
        Figure("streams-speed-up", speed_up_by_streams(scale), "times", goal=1.7),
        Figure("copy-bandwidth", copy_bandwidth(scale), "GB/s"),
        Figure("gelu-forward", share_of_bandwidth(scale, False), "% copy", goal=90),
        Figure("gelu-backward", share_of_bandwidth(scale, True), "% copy", goal=90),
        Figure("profiler-per-op", profiler_overhead, "us/op", goal=4),
    ]


def workloads(quick):
    """Everything, at full size or small enough to see that it runs."""
    scale = QUICK if quick else FULL
    return [*timed(scale), *figures(scale)]
