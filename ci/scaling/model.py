"""What communication costs on paper: formulas of all-reduce, steps of GPTs with DDP's own buckets, memory of a rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from network import Cluster, Link

from gradlib.distributed._buckets import FIRST_BUCKET_BYTES, assign

__all__ = ["GPTS", "Gpt", "Step", "buckets", "memory", "step", "times"]

FIRST_MB, MB = FIRST_BUCKET_BYTES, 1 << 20


# -- all-reduce of m bytes over n ranks: alpha for each message in a row, beta for each byte -----------------


def ring(cluster: Cluster, m: float) -> float:
    """2 (n - 1) messages of m / n bytes go over each link, and what goes round passes all links one after the other.

    The slower of both decides: the rate of the slowest link, or the way.
    """
    n, each = cluster.ranks, cluster.per_node
    hops = 2 * (n - 1)
    if cluster.nodes == 1:
        return hops * cost(cluster.inside, m / n)
    way = ((each - 1) * cost(cluster.inside, m / n) + cost(cluster.between, m / n)) / each
    return max(hops * way, hops * cluster.between.beta * m / n + cluster.between.alpha)


def levels(cluster: Cluster, m: float) -> float:
    """A message of m bytes at each level of a tree of two, those within nodes first."""
    inside, between = math.ceil(math.log2(cluster.per_node)), math.ceil(math.log2(cluster.nodes))
    return inside * cost(cluster.inside, m) + between * cost(cluster.between, m)


def doubling(cluster: Cluster, m: float) -> float:
    """For powers of two; others need two messages more."""
    return levels(cluster, m)


def tree(cluster: Cluster, m: float) -> float:
    """Up and down a binomial tree."""
    return 2 * levels(cluster, m)


def hierarchical(cluster: Cluster, m: float) -> float:
    """A ring in each node that leaves a part to each rank, a ring between nodes for each part, and back."""
    each = cluster.per_node
    inside = 2 * (each - 1) * cost(cluster.inside, m / each)
    if cluster.nodes == 1:
        return inside
    return inside + 2 * (cluster.nodes - 1) * cost(cluster.between, m / each / cluster.nodes)


def cost(link: Link, m: float) -> float:
    return link.alpha + link.beta * m


def times(cluster: Cluster, m: float) -> dict[str, float]:
    """Seconds of each algorithm."""
    formulas = {"ring": ring, "doubling": doubling, "tree": tree, "hierarchical": hierarchical}
    return {name: formula(cluster, m) for name, formula in formulas.items()}


# -- GPTs --------------------------------------------------------------------------------------------------------------


class Param(NamedTuple):
    """What `assign` asks a parameter for."""

    count: int
    dtype: str
    device: str
    size: int

    def numel(self) -> int:
        return self.count

    def element_size(self) -> int:
        return self.size


class Gpt(NamedTuple):
    """A decoder with tied embeddings, in the shapes of GPT-2 and GPT-3 (Brown et al. 2020, table 2.1)."""

    name: str
    layers: int
    width: int
    context: int
    vocabulary: int = 50257

    def sizes(self) -> Iterator[list[int]]:
        """Elements of the parameters, by layer; the embeddings come first, which backward reaches last."""
        d = self.width
        yield [self.vocabulary * d, self.context * d]
        for _ in range(self.layers):
            yield [d, d, 3 * d * d, 3 * d, d * d, d, d, d, 4 * d * d, 4 * d, 4 * d * d, d]
        yield [d, d]

    def parameters(self) -> int:
        return sum(map(sum, self.sizes()))

    def flops(self, tokens: int) -> list[float]:
        """Of a backward pass, by layer as `sizes`: four for each weight and token, twice the forward pass."""
        attention = (
            12 * self.width * self.context
        )  # 2 products of [context, width] for each token, times 3 passes
        of_layer = 12 * self.width**2 * 4 + attention * 2 / 3
        head = 4 * self.vocabulary * self.width
        return [0.0, *([of_layer * tokens] * self.layers), head * tokens]


GPTS = {"124M": Gpt("124M", 12, 768, 1024), "1.3B": Gpt("1.3B", 24, 2048, 2048)}


def buckets(gpt: Gpt, bucket_mb: float = 25, nbytes: int = 4) -> list[list[tuple[int, int]]]:
    """The buckets of DistributedDataParallel after its first step: (layer, bytes) of each member, in their order."""
    members = [
        (layer, Param(count, "float32", "cuda:0", nbytes))
        for layer, counts in enumerate(gpt.sizes())
        for count in counts
    ]
    arriving = range(len(members) - 1, -1, -1)
    limits = [FIRST_MB, int(bucket_mb * MB)]
    tensors: Any = [param for _, param in members]
    found = assign(tensors, limits, arriving)
    return [[(members[i][0], members[i][1].count * nbytes) for i in bucket] for bucket in found]


class Step(NamedTuple):
    """Seconds of a step: forward and backward, communication, and the part of it that backward does not hide."""

    compute: float
    communication: float
    exposed: float

    @property
    def efficiency(self) -> float:
        """The part of the step that is compute."""
        return self.compute / (self.compute + self.exposed)


def step(
    gpt: Gpt, tokens: int, rate: float, all_reduce: Callable[[float], float], **settings: Any
) -> Step:
    """A step of DistributedDataParallel.

    tokens: of a rank. rate: floating point operations in a second that a rank reaches.
    all_reduce: seconds for a number of bytes.

    Backward goes from the last layer to the first. A bucket goes out when its last gradient is there and the one before
    it is done: the engine carries out one collective at a time.
    """
    backward = [flops / rate for flops in gpt.flops(tokens)]
    ready, total = {}, 0.0
    for layer in reversed(range(len(backward))):
        total += backward[layer]
        ready[layer] = total
    free = communication = 0.0
    for bucket in buckets(gpt, **settings):
        seconds = all_reduce(sum(nbytes for _, nbytes in bucket))
        free = max(free, max(ready[layer] for layer, _ in bucket)) + seconds
        communication += seconds
    return Step(1.5 * total, communication, max(0.0, free - total))


def memory(gpt: Gpt, ranks: int, stage: int) -> float:
    """Bytes of a rank for parameters, gradients and Adam's state in float32; ZeRO's stage, 0 is DDP.

    DDP has its gradients within the buckets (`gradient_as_bucket_view`). Stage 3 (fully_shard) holds the whole
    parameters of the layer that it computes and of the next one, and the gradients of one.
    """
    n = gpt.parameters()
    whole = {0: 16, 1: 8, 2: 4, 3: 0}[stage]
    largest = max(map(sum, gpt.sizes()))
    layers = 3 * 4 * largest if stage == 3 and ranks > 1 else 0
    return n * (whole + (16 - whole) / ranks) + layers
