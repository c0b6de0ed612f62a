"""Which things are the same objects: by their addresses, however those are read."""

from __future__ import annotations

from gradlib._capture import identity
from gradlib._capture.identity import Same


def test_addresses_are_those_of_the_things():
    things = (1.5, "text", [], None, object())
    assert identity.addresses(things) == identity._one_by_one(things)
    assert identity.addresses(()) == b""


def test_equal_things_are_not_the_same():
    one, other = [1], [1]
    kept = Same(iter([one, 1.0, None]))
    assert kept.things == (one, 1.0, None) and kept.are([one, kept.things[1], None])
    assert not kept.are([other, kept.things[1], None])  # equal
    assert not kept.are([None, kept.things[1], one])  # in another order
    kept.add("more")
    assert kept.are([*kept.things]) and not kept.are(kept.things[:-1])
    kept = Same(kept.things[:-1])
    assert not kept.are([one, kept.things[1]]) and not kept.are([one, kept.things[1], None, None])
