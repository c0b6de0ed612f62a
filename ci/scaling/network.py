"""A simulated network on which the collectives of gradlib's own engine run.

Each rank is a thread that runs `Links` of `gradlib/distributed/_gloo/links.py` as it is; only sending and receiving
are replaced. A rank has a clock of its own. A message of m bytes leaves when the sender's link is free, occupies that
link for beta m, and arrives alpha later; a rank that waits for it sets its clock to the arrival. What a message costs
depends on its sender alone, so that the result is the same whatever threads run first.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradlib.distributed._gloo.links import Links, cuts

__all__ = ["Cluster", "Link", "Rank", "run"]


class Link(NamedTuple):
    """alpha: seconds that a message takes however small it is. beta: seconds for each byte."""

    alpha: float
    beta: float


class Cluster(NamedTuple):
    """Nodes of equal size. inside: the link between ranks of a node; between: that of ranks of different nodes."""

    nodes: int
    per_node: int
    inside: Link
    between: Link

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.nodes * self.per_node

    def link(self, a: int, b: int) -> Link:
        """The link that a message from rank a to rank b goes over."""
        return self.inside if a // self.per_node == b // self.per_node else self.between


class Post:
    """The messages that are under way, by (sender, receiver): arrivals and contents in order."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.boxes: dict[tuple[int, int], deque] = defaultdict(deque)
        self.failed: BaseException | None = None

    def put(self, pair: tuple[int, int], arrival: float, data: Any) -> None:
        with self.changed:
            self.boxes[pair].append((arrival, data))
            self.changed.notify_all()

    def get(self, pair: tuple[int, int]) -> tuple[float, Any]:
        with self.changed:
            there = lambda: self.boxes[pair] or self.failed
            if not self.changed.wait_for(there, timeout=60) or self.failed:
                raise RuntimeError(f"rank {pair[1]} waits for rank {pair[0]} in vain")
            return self.boxes[pair].popleft()

    def fail(self, error: BaseException) -> None:
        with self.changed:
            self.failed = error
            self.changed.notify_all()


class Wait:
    """A receive that has begun."""

    def __init__(self, rank: Rank, into: Any, source: int):
        self.rank, self.into, self.source = rank, into, source

    def wait(self, timeout: float) -> int:
        """Take the message, and the clock to its arrival."""
        rank = self.rank
        arrival, data = rank.post.get((rank.of[self.source], rank.of[rank.rank]))
        self.into[...] = data
        rank.shared["clock"] = max(rank.shared["clock"], arrival)
        return self.source


class Rank(Links):
    """`Links` over the simulated network.

    of: the number in the cluster of each rank of the group.
    scale: bytes that one byte of an array stands for, so that small arrays behave like big ones.
    """

    def __init__(
        self, cluster: Cluster, post: Post, of: list[int], rank: int, scale: float, shared: dict
    ):
        # what the constructor of Links makes are connections
        self.cluster, self.post, self.of, self.rank, self.scale = cluster, post, of, rank, scale
        self.size, self.timeout, self.shared = len(of), 60.0, shared

    def put(self, array: Any, to: int, tag: int = -1) -> None:
        me, other = self.of[self.rank], self.of[to]
        link = self.cluster.link(me, other)
        leaves = max(self.shared["clock"], self.shared["free"])
        self.shared["free"] = leaves + link.beta * array.nbytes * self.scale
        self.post.put((me, other), self.shared["free"] + link.alpha, array.copy())

    def begin(self, array: Any, source: int | None, tag: int = -1) -> Any:
        assert source is not None
        return Wait(self, array, source)

    def sub(self, of: list[int]) -> Rank:
        """The same process in another group."""
        me = of.index(self.of[self.rank])
        return Rank(self.cluster, self.post, of, me, self.scale, self.shared)


# -- algorithms --------------------------------------------------------------------------------------------------------


def ring(rank: Rank, array: Any) -> None:
    """The ring all-reduce of the engine, whatever the size of the array."""
    parts = [array[cut] for cut in cuts(array.size, rank.size)]
    rank._ring_reduce(parts, "sum")
    rank._ring_gather(parts)


def doubling(rank: Rank, array: Any) -> None:
    """The engine's all-reduce of small arrays."""
    rank._doubling(array, "sum")


def tree(rank: Rank, array: Any) -> None:
    """The engine's binomial trees: to rank 0, and back."""
    rank.reduce(array, 0, "sum")
    rank.broadcast(array, 0)


def hierarchical(rank: Rank, array: Any) -> None:
    """Within each node a ring that leaves a part to each rank, between nodes a ring for each part, and back."""
    each, me = rank.cluster.per_node, rank.of[rank.rank]
    node = rank.sub(list(range(me - me % each, me - me % each + each)))
    across = rank.sub(list(range(me % each, rank.cluster.ranks, each)))
    parts = [array[cut] for cut in cuts(array.size, each)]
    node._ring_reduce(parts, "sum")
    ring(across, parts[node.rank])
    node._ring_gather(parts)


ALGORITHMS: dict[str, Callable[[Rank, Any], None]] = {
    "ring": ring,
    "doubling": doubling,
    "tree": tree,
    "hierarchical": hierarchical,
}


def run(cluster: Cluster, nbytes: float, algorithm: str) -> float:
    """Seconds of an all-reduce, until the last rank has the sum; every rank's sum is compared."""
    count, ranks = max(cluster.ranks, 8) * 2, cluster.ranks
    scale = nbytes / (8 * count)
    post = Post()
    shared = [{"clock": 0.0, "free": 0.0} for _ in range(ranks)]
    arrays = [np.arange(count, dtype=np.float64) + r for r in range(ranks)]

    def body(r: int) -> None:
        try:
            rank = Rank(cluster, post, list(range(ranks)), r, scale, shared[r])
            ALGORITHMS[algorithm](rank, arrays[r])
        except BaseException as error:
            post.fail(error)
            raise

    threads = [threading.Thread(target=body, args=(r,), daemon=True) for r in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if post.failed:
        raise post.failed
    wanted = np.arange(count) * ranks + ranks * (ranks - 1) / 2
    assert all(np.array_equal(array, wanted) for array in arrays), "the sums are wrong"
    return max(own["clock"] for own in shared)
