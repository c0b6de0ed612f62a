"""Post-local SGD: gradients are averaged over all ranks at first, then only within a host, and parameters now and then.

Source: T. Lin, S. U. Stich, K. K. Patel, M. Jaggi, Don't Use Large Mini-Batches, Use Local SGD, ICLR 2020.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

from ....futures import Future
from ..._buckets import GradBucket
from ..._objects import all_gather_object
from ..._world import get_process_group_ranks, new_group, the_group
from . import default_hooks as default

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]

_log = logging.getLogger(__name__)


class PostLocalSGDState:
    """What `post_localSGD_hook` keeps between steps; one for each model.

    Args:
        process_group: whose ranks average in the first steps; all if None.
        subgroup: whose ranks average later; those of a host if None.
        start_localSGD_iter: how many first steps there are.
        post_local_gradient_allreduce: False for no average at all after them.

    Example::

        state = PostLocalSGDState(process_group=None, subgroup=None, start_localSGD_iter=100)
        model.register_comm_hook(state, post_localSGD_hook)
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,  # PyTorch's name
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step, if this is its last bucket.

        Args:
            bucket: what the hook was called with.
        """
        if bucket.is_last():
            self.iter += 1
            if self.iter == self.start_localSGD_iter:
                _log.info("Start to apply local SGD after %d iterations.", self.iter)


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future:  # PyTorch's name
    """Average the gradients over all ranks in the first steps, and within the subgroup after them.

    Average the parameters, too: with a ``PeriodicModelAverager``, or a ``PostLocalSGDOptimizer``.

    Args:
        state: kept between steps.
        bucket: the gradients.

    Returns:
        A future of the averages.

    Example::

        model.register_comm_hook(PostLocalSGDState(None, None, 100), post_localSGD_hook)
    """
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return default.allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        future: Future = Future()
        future.set_result(bucket.buffer())
        return future
    if state.subgroup is None:
        state.subgroup = _group_of_host(state.process_group)
    return default.allreduce_hook(state.subgroup, bucket)


def _group_of_host(process_group: Any) -> Any:
    """The group of the ranks that run on this host; all ranks make those of all hosts."""
    group = the_group(process_group)
    hosts: list[Any] = [None] * group.size()
    all_gather_object(hosts, socket.gethostname(), group=group)
    ranks = get_process_group_ranks(group)
    mine = None
    for host in dict.fromkeys(hosts):
        members = [rank for rank, name in zip(ranks, hosts) if name == host]
        made = new_group(members)
        if host == hosts[group.rank()]:
            mine = made
    return mine
