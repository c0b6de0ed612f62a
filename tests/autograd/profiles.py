"""What several tests of profiles need."""

from __future__ import annotations

import gradlib
from gradlib.autograd import profiler


def counts(prof) -> dict[str, int]:
    return {e.key: e.count for e in prof.key_averages()}


def named(prof, name: str):
    """The one event of that name."""
    found = [e for e in prof.function_events if e.name == name]
    assert len(found) == 1, [e.name for e in prof.function_events]
    return found[0]


def backward_in_another_thread():
    """A profile of `exp` whose node runs in another thread than it, because backward calls nest so deep."""
    x = gradlib.ones(1, requires_grad=True)

    @gradlib.enable_grad()
    def nested(depth):
        if depth == 0:
            return late.backward()
        y = gradlib.ones(1, requires_grad=True) * 1
        y.register_hook(lambda g: nested(depth - 1))
        return y.backward()

    with profiler.profile() as prof:
        late = x.exp()
        nested(60)
    return prof
