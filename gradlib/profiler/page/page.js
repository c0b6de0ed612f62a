// The page: tables, and canvases that share one view of the time axis.
"use strict";

(() => {
  const M = MODEL;
  const profile = M.decode(JSON.parse(document.getElementById("data").textContent));
  const { slices, tracks, rows, duration } = profile;
  const ROW = 18, HEAD = 20, GAP = 6, ARROWS = 34; // the last is room for arrows below the tracks
  const FONT = "11px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const state = { view: { start: 0, end: duration }, hover: -1, picked: -1, search: "", device: 0, cursor: null };
  let colors = {};

  // -- helpers ------------------------------------------------------------------------------------------------------

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== false) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  /** A canvas in the pixels of the screen, with a context in those of the page. */
  function prepare(canvas, height) {
    const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    return [context, width];
  }

  const toX = (time, width) => ((time - state.view.start) / (state.view.end - state.view.start)) * width;
  const toTime = (x, width) => state.view.start + (x / width) * (state.view.end - state.view.start);

  let asked = false;
  function redraw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      drawRuler();
      drawTracks();
      drawMemory();
      drawClocks();
    });
  }

  // -- timeline -----------------------------------------------------------------------------------------------------

  const top = []; // of each row of slices
  let tracksHeight = 0;
  for (const track of tracks) {
    tracksHeight += HEAD;
    for (let depth = 0; depth < track.depth; depth++, tracksHeight += ROW) top.push(tracksHeight);
    tracksHeight += GAP;
  }
  tracksHeight += ARROWS;
  const rowOf = (i) => tracks[slices.track[i]].firstRow + slices.depth[i];

  function drawRuler() {
    const [context, width] = prepare($("ruler"), 26);
    const { start, end } = state.view, marks = M.ticks(start, end, width / 110);
    const step = marks.length > 1 ? marks[1] - marks[0] : 0;
    context.fillStyle = colors.line;
    context.fillRect(0, 0, width, 4);
    context.fillStyle = colors.accent;
    context.fillRect((start / duration) * width, 0, Math.max(((end - start) / duration) * width, 3), 4);
    context.fillStyle = colors.soft;
    for (const mark of marks) {
      const x = toX(mark, width);
      context.fillRect(x, 20, 1, 6);
      context.fillText(M.time(mark, step, end), x + 4, 15);
    }
  }

  function drawTracks() {
    const [context, width] = prepare($("tracks"), tracksHeight);
    const marks = M.ticks(state.view.start, state.view.end, width / 110);
    context.fillStyle = colors.row;
    for (const mark of marks) context.fillRect(toX(mark, width), 0, 1, tracksHeight);
    context.fillStyle = colors.soft;
    let y = 0;
    for (const track of tracks) {
      context.fillText(track.name, 2, y + HEAD / 2);
      y += HEAD + track.depth * ROW + GAP;
    }
    rows.forEach((row, r) => {
      for (const box of M.boxes(profile, row, state.view, width)) drawBox(context, box, top[r], width);
    });
    const focus = state.hover >= 0 ? state.hover : state.picked;
    if (focus >= 0) for (const [from, to] of M.links(profile, focus)) drawArrow(context, from, to, width);
    for (const i of new Set([state.picked, state.hover])) if (i >= 0) outline(context, i, width, colors.text);
  }

  function drawBox(context, [x0, x1, i], y, width) {
    const left = Math.max(x0, 0), right = Math.min(x1, width), name = profile.names[slices.name[i]];
    context.globalAlpha = state.search && !name.toLowerCase().includes(state.search) ? 0.18 : 1;
    context.fillStyle = colors.kinds[slices.kind[i]];
    context.fillRect(left, y, Math.max(right - left - (right - left > 3 ? 0.6 : 0), 0.7), ROW - 2);
    if (right - left > 26) {
      const most = Math.floor((right - left - 6) / 6);
      context.fillStyle = slices.kind[i] === 3 ? colors.text : colors.slice;
      context.fillText(name.length > most ? `${name.slice(0, most - 1)}\u2026` : name, left + 3, y + ROW / 2 - 0.5);
    }
    context.globalAlpha = 1;
  }

  function outline(context, i, width, color) {
    const x0 = toX(slices.start[i], width), x1 = toX(slices.start[i] + slices.dur[i], width);
    const left = Math.max(x0, -2), right = Math.min(Math.max(x1, x0 + 1), width + 2);
    context.strokeStyle = color;
    context.lineWidth = 1.5;
    context.strokeRect(left, top[rowOf(i)] - 0.5, right - left, ROW - 1);
  }

  function drawArrow(context, from, to, width) {
    const middle = (i) => toX(slices.start[i] + slices.dur[i] / 2, width);
    const [x0, x1] = [middle(from), middle(to)], y0 = top[rowOf(from)] + ROW - 2, y1 = top[rowOf(to)] + ROW - 2;
    const sag = Math.min(22 + Math.abs(x1 - x0) / 10, 44);
    context.strokeStyle = context.fillStyle = colors.mark;
    context.lineWidth = 1.6;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, y0 + sag, x1, y1 + sag, x1, y1 + 6);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 4, y1 + 8);
    context.lineTo(x1 + 4, y1 + 8);
    context.fill();
    outline(context, from, width, colors.mark);
    outline(context, to, width, colors.mark);
  }

  function sliceAt(event) {
    const canvas = $("tracks"), bounds = canvas.getBoundingClientRect();
    const y = event.clientY - bounds.top, r = top.findIndex((t) => y >= t && y < t + ROW);
    if (r < 0) return -1;
    const span = (state.view.end - state.view.start) / bounds.width;
    return M.hit(profile, rows[r], toTime(event.clientX - bounds.left, bounds.width), 2 * span);
  }

  function setView(view) {
    state.view = view;
    redraw();
  }

  function zoomBy(factor, at = (state.view.start + state.view.end) / 2) {
    setView(M.zoom(state.view, factor, at, duration));
  }

  function show(i, other = i) {
    state.picked = i;
    describe(i);
    setView(M.around(profile, i, duration, other));
    $("scroller").scrollTop = Math.max(0, top[rowOf(i)] - 120);
  }

  // -- what is under the pointer ------------------------------------------------------------------------------------

  function tip(event, ...content) {
    const box = $("tip");
    box.replaceChildren(...content);
    box.hidden = false;
    const x = Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8);
    const below = event.clientY + 16;
    box.style.left = `${Math.max(x, 4)}px`;
    box.style.top = `${below + box.offsetHeight > window.innerHeight ? event.clientY - box.offsetHeight - 12 : below}px`;
  }

  const nameOf = (i) => profile.names[slices.name[i]];

  function facts(i) {
    const line = profile.lines[slices.line[i]], shape = profile.shapes[slices.shape[i]];
    const found = [`${M.time(slices.dur[i])}, own ${M.time(slices.self[i])}, ${M.KINDS[slices.kind[i]]}`];
    if (shape) found.push(`shapes ${shape}`);
    if (slices.bytes[i]) found.push(`memory ${M.bytes(slices.bytes[i])}`);
    if (line) found.push(`${line.short}  ${line.text}`);
    return found;
  }

  function hoverTip(event, i) {
    const others = M.links(profile, i).map(([from, to]) =>
      from === i ? `backward: ${nameOf(to)}, ${M.time(slices.dur[to])}`
        : `forward: ${nameOf(from)}, ${M.time(slices.dur[from])}`);
    tip(event, element("b", {}, nameOf(i)), ...[...facts(i), ...others].map((text) => element("div", {}, text)));
  }

  function describe(i) {
    const box = $("details");
    if (i < 0) {
      box.replaceChildren("Wheel zooms, dragging moves (keys: w s a d, 0 for all). Hover over a slice to see what it is "
        + "linked with; click to keep it.");
      return;
    }
    const jumps = M.links(profile, i).map(([from, to]) => {
      const other = from === i ? to : from;
      const text = `${from === i ? "backward" : "forward"}: ${nameOf(other)}`;
      return element("button", { class: "link", onclick: () => show(other, i) }, text);
    });
    const line = profile.lines[slices.line[i]];
    const [times, ...more] = facts(i);
    box.replaceChildren(element("b", {}, nameOf(i)), ` at ${M.time(slices.start[i])}: ${times}. `, ...jumps,
      element("div", {}, more.filter((text) => !line || !text.startsWith(line.short)).join(", ")),
      ...(line ? [element("div", { title: line.full }, line.short, element("code", {}, line.text))] : []));
  }

  function listenToTimeline() {
    const area = $("scroller");
    let drag = null;
    area.addEventListener("wheel", (event) => {
      const bounds = area.getBoundingClientRect(), span = state.view.end - state.view.start;
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        setView(M.pan(state.view, ((event.deltaX || event.deltaY) / bounds.width) * span, duration));
      } else {
        const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.006);
        zoomBy(factor, toTime(event.clientX - bounds.left, $("tracks").clientWidth));
      }
    }, { passive: false });
    area.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, top: area.scrollTop, view: state.view, moved: false };
    });
    window.addEventListener("pointermove", (event) => {
      if (!drag) return;
      if (Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 3) drag.moved = true;
      if (!drag.moved) return;
      area.classList.add("moving");
      const span = drag.view.end - drag.view.start;
      setView(M.pan(drag.view, ((drag.x - event.clientX) / area.clientWidth) * span, duration));
      area.scrollTop = drag.top + drag.y - event.clientY;
    });
    window.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved && area.contains(event.target)) {
        state.picked = sliceAt(event);
        describe(state.picked);
        redraw();
      }
      drag = null;
      area.classList.remove("moving");
    });
    area.addEventListener("pointermove", (event) => {
      if (drag?.moved) return;
      const i = sliceAt(event);
      if (i >= 0) hoverTip(event, i);
      else $("tip").hidden = true;
      if (i !== state.hover) {
        state.hover = i;
        redraw();
      }
    });
    area.addEventListener("pointerleave", () => {
      state.hover = -1;
      $("tip").hidden = true;
      redraw();
    });
    const keys = { w: () => zoomBy(0.6), s: () => zoomBy(1.7), a: () => step(-0.2), d: () => step(0.2),
      0: () => setView({ start: 0, end: duration }), ArrowLeft: () => step(-0.2), ArrowRight: () => step(0.2) };
    const step = (share) => setView(M.pan(state.view, share * (state.view.end - state.view.start), duration));
    area.addEventListener("keydown", (event) => keys[event.key]?.());
    $("zoom-in").onclick = keys.w;
    $("zoom-out").onclick = keys.s;
    $("zoom-all").onclick = keys[0];
    $("search").addEventListener("input", (event) => search(event.target.value));
  }

  function search(text) {
    state.search = text.trim().toLowerCase();
    if ($("search").value !== text) $("search").value = text;
    redraw();
  }

  // -- memory and clocks --------------------------------------------------------------------------------------------

  /** A line across a chart with its value; returns the height of a value. */
  function axis(context, width, height, largest, text) {
    const y = (value) => height - 4 - (value / (largest || 1)) * (height - 22);
    context.fillStyle = colors.line;
    context.fillRect(0, y(0), width, 1);
    context.fillRect(0, y(largest), width, 1);
    context.fillStyle = colors.soft;
    context.fillText(text(largest), 3, y(largest) - 8);
    return y;
  }

  function drawMemory() {
    const memory = profile.memory[state.device];
    if (!memory) return;
    const height = 190, [context, width] = prepare($("chart"), height);
    const y = axis(context, width, height, memory.peak_bytes, M.bytes);
    M.columns(memory.times, memory.sizes, state.view, Math.floor(width)).forEach((sizes, x) => {
      let below = 0;
      sizes?.forEach((size, k) => {
        context.fillStyle = colors.categories[k];
        context.fillRect(x, y(below + size), 1, y(below) - y(below + size));
        below += size;
      });
    });
    const x = toX(memory.peak_us, width);
    context.fillStyle = colors.mark;
    if (x >= 0 && x <= width) {
      context.fillRect(x, 14, 1.5, height - 18);
      const text = `peak ${M.bytes(memory.peak_bytes)}`, wide = context.measureText(text).width;
      context.fillText(text, x + wide + 8 > width ? x - wide - 6 : x + 6, 20);
    }
    crosshair(context, width, height);
  }

  function crosshair(context, width, height) {
    if (state.cursor === null) return;
    context.fillStyle = colors.soft;
    context.fillRect(toX(state.cursor, width), 0, 1, height);
  }

  function listenToMemory() {
    const chart = $("chart");
    chart.addEventListener("pointermove", (event) => {
      const memory = profile.memory[state.device], bounds = chart.getBoundingClientRect();
      state.cursor = toTime(event.clientX - bounds.left, bounds.width);
      const sizes = M.valueAt(memory.times, memory.sizes, state.cursor) ?? [0];
      tip(event, element("b", {}, M.bytes(M.sum(sizes))), element("div", {}, `at ${M.time(state.cursor)}`),
        ...sizes.map((n, k) => element("div", {}, `${profile.categories[k]}: ${M.bytes(n)}`)));
      redraw();
    });
    chart.addEventListener("pointerleave", () => {
      state.cursor = null;
      $("tip").hidden = true;
      redraw();
    });
    $("device").replaceChildren(...profile.memory.map((m, k) => element("option", { value: k }, m.device)));
    $("device").hidden = profile.memory.length < 2;
    $("device").onchange = (event) => {
      state.device = Number(event.target.value);
      fillPeak();
      redraw();
    };
  }

  function fillPeak() {
    const memory = profile.memory[state.device];
    $("explain").textContent = `Peak ${M.bytes(memory.peak_bytes)} at ${M.time(memory.peak_us)}: ${memory.explain}.`;
    const peak = memory.peak.map((row) => ({ ...row, shown: M.bytes(row.bytes) }));
    table($("peak"), [
      { key: "short", title: "Line", left: true, tip: "full" },
      { key: "text", title: "Source", left: true, code: true },
      { key: "category", title: "Category", left: true },
      { key: "share", title: "Share", bar: (row) => [[row.share, colorName(row.category)]],
        show: (row) => `${(100 * row.share).toFixed(1)}%` },
      { key: "bytes", title: "Bytes", show: (row) => row.shown },
      { key: "blocks", title: "Blocks" },
      { key: "ops", title: "Operations", left: true, code: true },
    ], peak, "bytes");
  }

  const colorName = (category) => ["--saved", "--made", "--other"][profile.categories.indexOf(category)];
  const CLOCKS = [["clock_mhz", "SM clock", "MHz"], ["power_w", "power", "W"], ["temperature_c", "temperature", "\u00b0C"],
    ["utilization", "utilization", "%"]];

  /** Each figure as a line, scaled to its own largest value. */
  function drawClocks() {
    if (!profile.clocks.length) return;
    const height = 110, [context, width] = prepare($("clock-chart"), height);
    const legend = [];
    CLOCKS.forEach(([field, name, unit], k) => {
      const samples = profile.clocks.filter((s) => s[field] !== null && s.device === profile.clocks[0].device);
      if (!samples.length) return;
      const largest = Math.max(...samples.map((s) => s[field]), 1e-9);
      context.strokeStyle = colors.kinds[[0, 1, 4, 3][k]];
      context.lineWidth = 1.8;
      context.beginPath();
      for (const s of samples) context.lineTo(toX(s.time_us, width), height - 6 - (s[field] / largest) * (height - 16));
      context.stroke();
      legend.push([`${name}, highest ${largest.toFixed(0)} ${unit}`, ["--forward", "--backward", "--device", "--label"][k]]);
    });
    context.fillStyle = colors.mark;
    for (const s of profile.clocks) if (s.throttled.length) context.fillRect(toX(s.time_us, width) - 1, 0, 3, height);
    swatches($("clock-legend"), legend);
  }

  // -- tables -------------------------------------------------------------------------------------------------------

  /** A table that a click on a heading sorts. Columns: key, title, left, code, tip, show(row), bar(row). */
  function table(place, columns, all, key, { limit = 200, pick = null } = {}) {
    const sort = { key, falling: true };
    let most = limit;
    function fill() {
      const heads = columns.map((column) => element("th", {
        class: column.left ? "left" : "",
        "aria-sort": column.key !== sort.key ? "none" : sort.falling ? "descending" : "ascending",
      }, element("button", { onclick: () => {
        sort.falling = column.key === sort.key ? !sort.falling : !column.left;
        sort.key = column.key;
        fill();
      } }, column.title)));
      const chosen = M.sorted(all, sort.key, sort.falling);
      const body = chosen.slice(0, most).map((row) => element("tr", pick ? { class: "pick", onclick: () => pick(row) } : {},
        ...columns.map((column) => cell(column, row))));
      place.replaceChildren(element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body));
      place.parentNode.querySelector(".more")?.remove();
      if (chosen.length > most) {
        place.after(element("button", { class: "more", onclick: () => { most = Infinity; fill(); } },
          `Show all ${chosen.length}`));
      }
    }
    fill();
  }

  function cell(column, row) {
    const text = column.show ? column.show(row) : String(row[column.key]);
    const made = element("td", { class: column.left ? (column.code ? "left code" : "left") : "" });
    if (column.bar) {
      const parts = column.bar(row).map(([share, color]) =>
        element("i", { style: `width:${(100 * share).toFixed(2)}%;background:var(${color})` }));
      made.append(element("span", { class: "share" }, ...parts));
    }
    if (column.tip || column.code) made.title = row[column.tip ?? column.key];
    made.append(column.bar ? element("span", { class: "value" }, text) : text);
    return made;
  }

  const times = (key, title) => ({ key, title, show: (row) => M.time(row[key]) });

  function fillOperations(filter = "") {
    const total = M.sum(profile.operations.map((row) => row.self)) || 1;
    const shown = profile.operations.filter((row) => row.name.toLowerCase().includes(filter.trim().toLowerCase()));
    const columns = [
      { key: "name", title: "Name", left: true },
      { key: "calls", title: "Calls" },
      { key: "self", title: "Self CPU", show: (row) => M.time(row.self), bar: (row) => [[row.self / total, "--forward"]] },
      { key: "share", title: "Self CPU %", show: (row) => `${((100 * row.self) / total).toFixed(1)}%` },
      times("total", "CPU total"), times("average", "CPU average"),
    ];
    if (profile.uses_device) columns.push(times("device", "Self device"), times("device_total", "Device total"));
    if (profile.memory.length) columns.push({ key: "bytes", title: "Self memory", show: (row) => M.bytes(row.bytes) });
    table($("op-table"), columns, shown.map((row) => ({ ...row, share: row.self / total })),
      profile.uses_device ? "device" : "self", { pick: (row) => search(row.name) });
  }

  function fillLines() {
    const largest = Math.max(...profile.report.map((row) => row.forward + row.backward), 1e-9);
    const columns = [
      { key: "short", title: "Line", left: true, tip: "full" },
      { key: "text", title: "Source", left: true, code: true },
      { key: "calls", title: "Calls" },
      { key: "sum", title: "CPU", show: (row) => M.time(row.sum),
        bar: (row) => [[row.forward / largest, "--forward"], [row.backward / largest, "--backward"]] },
      times("forward", "Forward CPU"), times("backward", "Backward CPU"),
    ];
    if (profile.uses_device)
      columns.push(times("forward_device", "Forward device"), times("backward_device", "Backward device"));
    const all = profile.report.map((row) => ({ ...row, sum: row.forward + row.backward }));
    table($("line-table"), columns, all, profile.uses_device ? "forward_device" : "sum");
  }

  // -- the whole ----------------------------------------------------------------------------------------------------

  function swatches(place, entries) {
    place.replaceChildren(...entries.map(([text, color]) =>
      element("span", {}, element("i", { class: "swatch", style: `background:var(${color})` }), text)));
  }

  function fillHead() {
    $("title").textContent = profile.title;
    $("subtitle").textContent = profile.subtitle;
    $("warning").textContent = profile.warning;
    $("warning").hidden = !profile.warning;
    $("figures").replaceChildren(...profile.figures.map(([name, kind, value]) => element("div", { class: "figure" },
      element("b", {}, kind === "time" ? M.time(value) : kind === "bytes" ? M.bytes(value) : String(value)),
      element("span", {}, name))));
    const kinds = [["forward", "--forward"], ["backward", "--backward"], ["inside backward", "--inside"],
      ["label", "--label"], ["device", "--device"]];
    swatches($("kinds"), kinds.slice(0, profile.uses_device ? 5 : 4));
    swatches($("categories"), profile.categories.map((name) => [name, colorName(name)]));
  }

  function setTheme(theme) {
    root.dataset.theme = theme;
    $("theme").textContent = theme === "dark" ? "\u2600 Light" : "\u263e Dark";
    const style = getComputedStyle(root), color = (name) => style.getPropertyValue(`--${name}`).trim();
    colors = Object.fromEntries(["line", "row", "soft", "text", "accent", "mark"].map((name) => [name, color(name)]));
    colors.slice = color("on-slice");
    colors.kinds = ["forward", "backward", "inside", "label", "device"].map(color);
    colors.categories = ["saved", "made", "other"].map(color);
    redraw();
  }

  const wantsDark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(wantsDark.matches ? "dark" : "light");
  wantsDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  $("theme").onclick = () => setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  fillHead();
  describe(-1);
  listenToTimeline();
  $("memory").hidden = !profile.memory.length;
  if (profile.memory.length) {
    state.device = profile.memory.indexOf(profile.memory.reduce((a, b) => (b.peak_bytes > a.peak_bytes ? b : a)));
    listenToMemory();
    $("device").value = state.device;
    fillPeak();
  }
  $("clocks").hidden = !profile.clocks.length;
  $("lines").hidden = !profile.report.length;
  fillLines();
  fillOperations();
  $("filter").addEventListener("input", (event) => fillOperations(event.target.value));
  new ResizeObserver(redraw).observe($("timeline"));
  window.profilePage = { profile, state, show, setView }; // for the console
})();
