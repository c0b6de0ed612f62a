"""Random numbers that the ranks of a mesh agree on.

All draw from the state of the mesh's first rank, which alone keeps what the state is afterwards: so the ranks may have
seeds of their own, as for the order of their data. What fills a DTensor is drawn whole and cut, so that it is the
same on any number of ranks, and the same as in one process with the first rank's seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...devices.cuda import generators as on_cuda
from ...operators import public as ops
from ...tape.device import device as device_class
from ...tape.generator import default_generator
from .. import distributed_c10d as c10d
from ._layout import Layout


@contextmanager
def drawing(mesh: Any, device: device_class) -> Iterator[Any]:
    """A block in which all ranks of a mesh have the random state of its first rank.

    Gives the generator of the device.
    """
    on_host = device.type == "cpu"
    generator = default_generator if on_host else on_cuda.default_generator(device)
    before = generator.get_state()
    generator.set_state(_of_first(before, mesh))
    try:
        yield generator
    finally:
        if any(mesh.get_coordinate() or ()):
            generator.set_state(before)


@contextmanager
def drawing_parts(layout: Layout, device: device_class) -> Iterator[None]:
    """A block in which ranks that hold the same part draw the same, and others other numbers."""
    with drawing(layout.mesh, device) as generator:
        seed = int(ops.randint(2**31 - 1, (1,), device=device).item())
        after = generator.get_state()
        place = 0
        for i, placement in enumerate(layout.placements):
            if placement.is_shard():
                place = place * layout.mesh.size(i) + layout.mesh.get_local_rank(i)
        generator.manual_seed(seed + place)
        try:
            yield
        finally:
            generator.set_state(after)


def _of_first(state: Any, mesh: Any) -> Any:
    host = state.to("cuda" if mesh.device_type == "cuda" else "cpu").clone()
    for i in range(mesh.ndim):
        if mesh.size(i) > 1:
            group = mesh.get_group(i)
            c10d.broadcast(host, c10d.get_global_rank(group, 0), group=group)
    return host.to("cpu")
