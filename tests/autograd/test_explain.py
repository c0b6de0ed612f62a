"""explain and saved_report: questions about a recorded graph."""

from __future__ import annotations

import gradlib as torch
from gradlib.autograd import explain, saved_report


def test_a_path_is_listed_with_source_lines():
    w = torch.ones(3, requires_grad=True)
    hidden = w * 2
    text = explain(hidden.exp().sum(), w)
    assert text.startswith("gradient: it flows to this tensor through")
    assert text.index("ExpBackward0") < text.index("MulBackward0")
    assert "hidden = w * 2" in text
    assert "accumulated in .grad" in text
    assert "not a leaf" in explain(hidden.exp().sum(), hidden)


def test_a_detached_use_is_found_with_its_line():
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    cut = w.detach()
    text = explain((cut * v).sum(), w)
    assert text.startswith("no gradient: MulBackward0 uses the memory of this tensor")
    assert "cut = w.detach()" in text


def test_other_reasons():
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    assert "requires_grad=False" in explain(v.sum(), torch.ones(3))
    with torch.no_grad():
        loss = w.sum()
    assert "does not require grad" in explain(loss, w)
    assert "no recorded operation leads" in explain(v.sum(), w)


def test_saved_bytes_by_line():
    x = torch.ones(1000, requires_grad=True)
    y = x.exp()
    z = (y * y).tanh()
    rows = saved_report(z.sum())
    assert [row.bytes for row in rows] == [4000, 4000]
    assert {row.nodes for row in rows} == {("ExpBackward0",), ("TanhBackward0",)}
    assert all("test_explain.py" in row.line for row in rows)
    assert saved_report(torch.ones(3)) == []
