// The page: tables, keys, and what fills it when it is opened.
"use strict";

(() => {
  const M = MODEL, { $, element, swatches, table } = DOM;
  const { profile, state, redraw, setView, setTheme, step, zoomBy, listenToView } = VIEW;
  const { slices, duration } = profile;
  const { describe, listenToTimeline, next, pick, placeOf, search, show } = TIMELINE;
  const { colorName, fillPeak, listenToMemory } = CHARTS;
  const KINDS = [ // name, colour, what it is
    ["forward", "--forward", "operations that the program calls"],
    ["backward", "--backward", "nodes of the graph, which backward() runs"],
    ["inside backward", "--inside", "operations that these nodes call"],
    ["label", "--label", "blocks that record_function, an optimizer or a data loader names"],
    ["device", "--device", "the work of an operation on a CUDA stream"],
  ];
  const CATEGORIES = ["kept by the graph until backward() has used it", "gradients, and what their formulas need",
    "all else: results that no node keeps, parameters, batches"];

  // -- keys ---------------------------------------------------------------------------------------------------------


  const KEYS = {
    w: ["zoom in", () => zoomBy(0.6)],
    s: ["zoom out", () => zoomBy(1.7)],
    a: ["go left", () => step(-0.2)],
    d: ["go right", () => step(0.2)],
    0: ["show the whole profile", () => setView({ start: 0, end: duration })],
    f: ["show the slice that was clicked", () => state.picked >= 0 && show(state.picked)],
    l: ["go to the other end of its first arrow", () => {
      const [pair] = state.picked >= 0 ? M.links(profile, state.picked) : [];
      if (pair) show(pair.find((i) => i !== state.picked), state.picked);
    }],
    n: ["next slice that was searched for", () => next(1)],
    "/": ["search", () => $("search").focus()],
    Escape: ["let go of the slice, close this list", () => {
      $("help").hidden = true;
      pick(-1);
    }],
    "?": ["show or hide this list", () => {
      $("help").hidden = !$("help").hidden;
    }],
  };
  const ALSO = { ArrowLeft: "a", ArrowRight: "d" };

  function listenToKeys() {
    window.addEventListener("keydown", (event) => {
      const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
      const key = KEYS[ALSO[event.key] ?? event.key];
      if (!key || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      key[1]();
    });
    const rows = [["wheel, drag", "zoom and move: in the timeline and the charts"],
      ...Object.entries(KEYS).map(([name, [what]]) => [name === "Escape" ? "Esc" : name, what])];
    $("keys").replaceChildren(...rows.flatMap(([name, what]) => [element("kbd", {}, name), element("span", {}, what)]));
    for (const [id, name] of [["zoom-in", "w"], ["zoom-out", "s"], ["zoom-all", "0"], ["show-help", "?"],
      ["close-help", "Escape"]]) $(id).onclick = KEYS[name][1];
  }

  // -- tables -------------------------------------------------------------------------------------------------------

  const times = (key, title) => ({ key, title, show: (row) => M.time(row[key]) });

  const kinds = new Map(); // by name, as it first appears
  slices.name.forEach((name, i) => {
    const text = profile.names[name];
    if (!kinds.has(text)) kinds.set(text, slices.kind[i]);
    const step = text.replace(/^ProfilerStep#.*/, "ProfilerStep*"); // steps are one row
    if (!kinds.has(step)) kinds.set(step, slices.kind[i]);
  });

  function fillOperations(filter = "") {
    const main = profile.uses_device ? "device" : "self"; // whose share the bars show
    const total = M.sum(profile.operations.map((row) => row[main])) || 1;
    const shown = profile.operations.filter((row) => row.name.toLowerCase().includes(filter.trim().toLowerCase()));
    const own = (key, title) => ({ ...times(key, title), bar: key === main
      ? (row) => [[row.share, KINDS[kinds.get(row.name) ?? 0][1]]] : undefined });
    const share = { key: "share", title: `${main === "self" ? "Self CPU" : "Self device"} %`,
      show: (row) => `${(100 * row.share).toFixed(1)}%` };
    const columns = [
      { key: "name", title: "Name", left: true, color: (row) => KINDS[kinds.get(row.name) ?? 0][1] },
      { key: "calls", title: "Calls" },
      ...(profile.uses_device ? [own("device", "Self device"), share, times("device_total", "Device total")] : []),
      own("self", "Self CPU"), ...(profile.uses_device ? [] : [share]), times("total", "CPU total"),
      times("average", "CPU average"),
    ];
    if (profile.memory.length) columns.push({ key: "bytes", title: "Self memory", show: (row) => M.bytes(row.bytes) });
    const all = shown.map((row) => ({ ...row, share: row[main] / total }));
    table($("op-table"), columns, all, main, { pick: (row) => search(row.name) });
  }

  function fillLines() {
    const all = profile.report.map((row) => ({ ...row, sum: row.forward + row.backward,
      device_sum: row.forward_device + row.backward_device }));
    const sums = (key, title, forward, backward) => {
      const largest = Math.max(...all.map((row) => row[key]), 1e-9);
      return { ...times(key, title),
        bar: (row) => [[row[forward] / largest, "--forward"], [row[backward] / largest, "--backward"]] };
    };
    const columns = [
      { key: "short", title: "Line", left: true, tip: "full" },
      { key: "text", title: "Source", left: true, code: true },
      { key: "calls", title: "Calls" },
    ];
    if (profile.uses_device)
      columns.push(sums("device_sum", "Device", "forward_device", "backward_device"),
        times("forward_device", "Forward device"), times("backward_device", "Backward device"));
    else columns.push(sums("sum", "CPU", "forward", "backward"));
    columns.push(times("forward", "Forward CPU"), times("backward", "Backward CPU"));
    table($("line-table"), columns, all, profile.uses_device ? "device_sum" : "sum");
  }

  // -- the whole ----------------------------------------------------------------------------------------------------

  function fillHead() {
    $("title").textContent = profile.title;
    $("subtitle").textContent = profile.subtitle;
    $("warning").textContent = profile.warning;
    $("warning").hidden = !profile.warning;
    $("figures").replaceChildren(...profile.figures.map(([name, kind, value]) => element("div", { class: "figure" },
      element("b", {}, kind === "time" ? M.time(value) : kind === "bytes" ? M.bytes(value) : String(value)),
      element("span", {}, name))));
    swatches($("kinds"), KINDS.slice(0, profile.uses_device ? 5 : 4));
    swatches($("categories"), profile.categories.map((name, k) => [name, colorName(name), CATEGORIES[k]]));
  }

  const wantsDark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(wantsDark.matches ? "dark" : "light");
  wantsDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  $("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  fillHead();
  describe(-1);
  listenToTimeline();
  listenToKeys();
  $("memory").hidden = !profile.memory.length;
  if (profile.memory.length) {
    state.device = profile.memory.indexOf(profile.memory.reduce((a, b) => (b.peak_bytes > a.peak_bytes ? b : a)));
    listenToMemory();
    $("device").value = state.device;
    fillPeak();
  }
  $("clocks").hidden = !profile.clocks.length;
  if (profile.clocks.length) listenToView($("clock-chart"));
  $("lines").hidden = !profile.report.length;
  fillLines();
  fillOperations();
  $("filter").addEventListener("input", (event) => fillOperations(event.target.value));
  new ResizeObserver(redraw).observe($("timeline"));
  window.profilePage = { profile, state, show, setView, placeOf }; // for the console
})();
