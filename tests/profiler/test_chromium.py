"""The page of a profile in Chromium, with a real mouse and real pixels. Collected where Chromium is installed."""

from __future__ import annotations

import pytest

import gradlib
from gradlib.autograd import profiler

from .chromium import Browser

# counts the pixels of a canvas by colour, or finds where in a row or column they are
PIXELS = """
    const read = (id) => {
      const canvas = document.getElementById(id), { width, height } = canvas;
      const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(canvas, 0, 0);
      return copy.getImageData(0, 0, width, height);
    };
    const colorAt = (data, i) => "#" + [0, 1, 2].map((k) => data[i + k].toString(16).padStart(2, "0")).join("");
    const painted = (id) => {
      const { data, width, height } = read(id), found = {};
      let drawn = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] < 255) continue;
        drawn++;
        const color = colorAt(data, i);
        found[color] = (found[color] ?? 0) + 1;
      }
      return { drawn: drawn / (width * height), found };
    };
    const colorOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const count = (id, name) => painted(id).found[colorOf(name)] ?? 0;
    const { profile, state, show, setView, placeOf } = profilePage, { slices } = profile;
    const nameOf = (i) => profile.names[slices.name[i]];
    const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const middle = (node) => {
      node.scrollIntoView({ block: "center" });
      const { left, top, width, height } = node.getBoundingClientRect();
      return { x: left + width / 2, y: top + height / 2 };
    };
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def page(browser, path):
    """``page(program)`` runs a function body in the freshly opened page; nothing may go wrong in the test."""
    browser.errors.clear()
    browser.requests.clear()
    browser.mouse("mouseMoved", 1, 1)
    browser.open(path)
    yield lambda program: browser.run(PIXELS + program)
    assert browser.errors == []
    assert browser.requests == [path.as_uri()]  # nothing from a network


def test_2000_operations_are_drawn(page, recorded):
    seen = page("""
        const counts = (id, names) => Object.fromEntries(names.map((name) => [name, count(id, name)]));
        const kinds = counts("tracks", ["forward", "backward", "inside", "label"]);
        const sizes = counts("chart", ["saved", "made", "other"]);
        return { shown: slices.start.length, kinds, sizes, tracks: painted("tracks").drawn, title: document.title,
          ruler: painted("ruler").drawn, colors: Object.keys(painted("tracks").found).length,
          text: document.body.innerText };
    """)
    assert seen["shown"] > 2000 and seen["title"] == "A <title> & more"
    assert min(seen["kinds"].values()) > 200, seen["kinds"]
    assert seen["sizes"]["saved"] > 2000 and seen["sizes"]["made"] > 500
    assert seen["tracks"] > 0.1 and seen["ruler"] > 0.01
    assert seen["colors"] > 20  # text is drawn with soft edges
    assert "TanhBackward0" in seen["text"] and "is saved by conftest.py:" in seen["text"]
    assert "step </script><b>" in seen["text"]


def test_the_colours_are_those_of_the_slices(page):
    """At each of many slices the canvas has the colour of its kind."""
    seen = page("""
        const found = [];
        for (let i = 0; i < slices.start.length; i += 97) {
          if (slices.dur[i] < 0.5) continue;
          show(i);
          await drawn();
          const bounds = document.getElementById("tracks").getBoundingClientRect(), at = placeOf(i);
          const x = Math.round(at.x - bounds.left), y = Math.round(at.y - bounds.top) - 6;  // above the label
          const { data, width } = read("tracks");
          const kind = ["forward", "backward", "inside", "label"][slices.kind[i]];
          found.push(colorAt(data, 4 * (y * width + x)) === colorOf(kind));
        }
        return found;
    """)
    assert len(seen) > 10 and all(seen)


def test_the_wheel_zooms_around_the_pointer(page, browser):
    look = """
        const bounds = document.getElementById("tracks").getBoundingClientRect();
        const { start, end } = state.view, at = start + ((700 - bounds.left) / bounds.width) * (end - start);
        return { span: (end - start) / profile.duration, at, y: bounds.top + 40, pixel: (end - start) / bounds.width,
          forward: count("tracks", "forward"), page: scrollY };
    """
    before = page(look)
    for _ in range(8):
        browser.mouse("mouseWheel", 700, before["y"], deltaX=0, deltaY=-120)
    near = page(look)
    assert before["span"] == 1 and near["span"] < 0.1
    assert abs(near["at"] - before["at"]) <= before["pixel"]
    assert near["forward"] != before["forward"] and near["page"] == 0  # the page itself stays
    browser.mouse("mouseMoved", 700, before["y"])
    browser.mouse("mousePressed", 700, before["y"], button="left", buttons=1)
    for x in (650, 600, 500):
        browser.mouse("mouseMoved", x, before["y"], button="left", buttons=1)
    browser.mouse("mouseReleased", 500, before["y"], button="left")
    moved = page(look)
    assert moved["span"] == pytest.approx(near["span"])
    assert moved["at"] == pytest.approx(near["at"] + 200 * near["pixel"], abs=near["pixel"])
    browser.key("0")
    assert page(look)["span"] == 1


def test_hovering_shows_the_arrow_and_the_tip(page, browser):
    find = """
        const node = slices.forward.findIndex((maker, i) => maker >= 0 && slices.dur[i] > 5);
        const maker = slices.forward[node];
        show(maker, node);  // both are in view
        state.picked = -1;
        setView(state.view);
        await drawn();
        return { node, maker, at: placeOf(node), from: placeOf(maker), name: nameOf(node), other: nameOf(maker) };
    """
    look = """
        const box = document.getElementById("tip"), { left, top, right, bottom } = box.getBoundingClientRect();
        return { mark: count("tracks", "mark"), hover: state.hover, hidden: box.hidden, text: box.innerText,
          inside: left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight };
    """
    places = page(find)
    before = page(look)
    assert before["mark"] == 0 and before["hidden"]
    browser.mouse("mouseMoved", **places["at"])
    seen = page(look)
    assert seen["hover"] == places["node"] and not seen["hidden"] and seen["inside"]
    assert places["name"] in seen["text"] and f"forward: {places['other']}" in seen["text"]
    assert seen["mark"] > 100  # a curve, a head and two outlines
    browser.mouse("mouseMoved", **places["from"])
    assert f"backward: {places['name']}" in page(look)["text"]
    browser.mouse("mouseMoved", 5, 5)
    after = page(look)
    assert after["mark"] == 0 and after["hidden"] and after["hover"] == -1


def test_a_click_keeps_a_slice_and_links_lead_on(page, browser):
    at = page("""
        const node = slices.forward.findIndex((maker, i) => maker >= 0 && slices.dur[i] > 5);
        show(node);
        state.picked = -1;
        await drawn();
        return placeOf(node);
    """)
    browser.click(**at)
    text = "return document.getElementById('details').innerText"
    kept = page(text)
    assert "SumBackward0" in kept and "y.sum().backward()" in kept
    browser.mouse("mouseMoved", 5, 5)
    assert page("return count('tracks', 'mark')") > 50  # the arrow stays
    browser.click(**page("return middle(document.querySelector('#details .link'))"))
    assert page(text).startswith("sum at ")


def test_keys_and_search(page, browser):
    span = "return (state.view.end - state.view.start) / profile.duration"
    browser.key("w")
    assert page(span) == pytest.approx(0.6)
    browser.key("?")
    assert page("return document.getElementById('help').offsetHeight") > 100
    browser.key("?")
    assert page("return document.getElementById('help').offsetHeight") == 0
    page("show(slices.name.findIndex((_, i) => nameOf(i) === 'tanh')); await drawn();")
    span_now = page(span)
    before = page("return count('tracks', 'forward')")
    browser.key("/")
    for letter in "was":
        browser.key(letter)  # typed, not keys of the timeline
    assert page(span) == span_now
    assert page("return document.getElementById('found').innerText") == "0 found"
    assert page("return count('tracks', 'forward')") < before / 2  # what was not found is pale


def test_tables_are_sorted_by_a_click(page, browser):
    table = """
        const rows = [...document.querySelectorAll("#op-table tbody tr")];
        const head = [...document.querySelectorAll("#op-table th")];
        const column = (k) => rows.map((row) => row.children[k].innerText);
        return { calls: column(1).map(Number), names: column(0),
          sorted: head.map((th) => th.getAttribute("aria-sort")), swatches: rows.map((row) =>
            getComputedStyle(row.querySelector(".swatch")).backgroundColor) };
    """
    head = "return middle(document.querySelectorAll('#op-table th button')[{}])"
    first = page(table)
    browser.click(**page(head.format(1)))
    falling = page(table)
    assert falling["calls"] == sorted(first["calls"], reverse=True) != first["calls"]
    assert falling["sorted"][1] == "descending"
    browser.click(**page(head.format(1)))
    assert page(table)["calls"] == falling["calls"][::-1]
    browser.click(**page(head.format(0)))
    assert page(table)["names"] == sorted(first["names"], key=str.lower)
    colors = dict(zip(first["names"], first["swatches"], strict=True))
    assert colors["mm"] != colors["MmBackward0"] != colors["step </script><b>"]


def test_the_memory_chart(page, browser, recorded):
    seen = page("""
        const at = middle(document.getElementById("chart")), { data, width, height } = read("chart");
        const wanted = ["saved", "made", "other"].map(colorOf);
        const tall = Array.from({ length: width }, (_, x) => {
          let n = 0;
          for (let y = 0; y < height; y++) if (wanted.includes(colorAt(data, 4 * (y * width + x)))) n++;
          return n;
        });
        const { times, sizes } = profile.memory[0];
        const columns = MODEL.columns(times, sizes, state.view, width).map(MODEL.sum);
        return { tall, columns, at, width, mark: count("chart", "mark") };
    """)
    peak, tallest = max(seen["columns"]), max(seen["tall"])
    assert peak == recorded.memory_timeline().peak_bytes and tallest > 130
    off = [abs(t - tallest * c / peak) for t, c in zip(seen["tall"], seen["columns"], strict=True)]
    # labels and lines across cover some columns, which ones depends on when the peak was
    assert sorted(off)[int(0.9 * len(off))] <= 4
    assert seen["mark"] > 100  # where the peak is
    browser.mouse("mouseMoved", **seen["at"])
    text = page("return document.getElementById('tip').innerText")
    assert "saved for backward" in text and text.split("\n")[1].startswith("at ")
    span = "return (state.view.end - state.view.start) / profile.duration"
    browser.mouse("mouseWheel", **seen["at"], deltaX=0, deltaY=-120)
    assert page(span) < 1  # the wheel works here, too


def test_light_and_dark(page, browser, path):
    colors = """
        const { backgroundColor, color } = getComputedStyle(document.body);
        const { theme } = document.documentElement.dataset;
        return { theme, backgroundColor, color, forward: count("tracks", "forward") };
    """
    light = page(colors)
    browser.click(**page("return middle(document.getElementById('theme'))"))
    dark = page(colors)
    assert (light["theme"], dark["theme"]) == ("light", "dark")
    assert light["backgroundColor"] != dark["backgroundColor"] and light["color"] != dark["color"]
    assert min(light["forward"], dark["forward"]) > 200  # each in its own blue


def test_a_profile_of_100_000_operations_is_shown(browser, tmp_path):
    x = gradlib.ones(2)
    with profiler.profile() as prof:
        for _ in range(100_000):
            x * 2
    prof.export_html(tmp_path / "large.html")
    browser.errors.clear()
    browser.open(tmp_path / "large.html")
    spent = browser.run("""
        const { state, setView, profile } = profilePage, begin = performance.now();
        for (let k = 0; k < 20; k++) {
          setView({ start: 0, end: profile.duration * 0.8 ** k });
          await new Promise((done) => requestAnimationFrame(done));
        }
        return (performance.now() - begin) / 20;
    """)
    assert spent < 500  # ms for a picture; on a machine that does other work, too
    assert browser.errors == []
