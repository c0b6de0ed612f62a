// Charts below the timeline: memory, and the clocks of a device.
"use strict";

const CHARTS = (() => {
  const M = MODEL, { $, element, prepare, swatches, tip, table } = DOM;
  const { profile, state, colors, toX, toTime, redraw, listenToView } = VIEW;
  const BELOW = 16; // room for the times below a chart

  /** The height of a value in a chart. */
  const heights = (height, largest) => (value) => height - BELOW - (value / (largest || 1)) * (height - BELOW - 18);

  /** Lines across a chart with their values, and the times below. */
  function axis(context, width, height, largest, text) {
    const y = heights(height, largest), marks = M.ticks(state.view.start, state.view.end, width / 110);
    const step = marks.length > 1 ? marks[1] - marks[0] : 0;
    context.globalAlpha = 0.35;
    context.fillStyle = colors.soft;
    for (const value of [0, largest / 2, largest]) context.fillRect(0, y(value), width, 1);
    context.globalAlpha = 1;
    context.fillStyle = colors.text;
    for (const value of [largest / 2, largest]) context.fillText(text(value), 3, y(value) - 8);
    context.fillStyle = colors.soft;
    for (const mark of marks) {
      const x = toX(mark, width) + 4, text = M.time(mark, step, state.view.end);
      if (x + context.measureText(text).width <= width) context.fillText(text, x, height - 6);
    }
  }

  function drawMemory() {
    const memory = profile.memory[state.device];
    if (!memory) return;
    const height = 190, [context, width] = prepare($("chart"), height);
    const y = heights(height, memory.peak_bytes);
    M.columns(memory.times, memory.sizes, state.view, Math.floor(width)).forEach((sizes, x) => {
      let below = 0;
      sizes?.forEach((size, k) => {
        context.fillStyle = colors.categories[k];
        context.fillRect(x, y(below + size), 1, y(below) - y(below + size));
        below += size;
      });
    });
    axis(context, width, height, memory.peak_bytes, (n) => M.bytes(Math.round(n)));
    const x = Math.round(toX(memory.peak_us, width));
    context.fillStyle = colors.mark;
    if (x >= 0 && x <= width) {
      context.fillRect(x, 14, 2, height - BELOW - 14);
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
    listenToView(chart);
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
    const height = 120, [context, width] = prepare($("clock-chart"), height);
    const legend = [], { device } = profile.clocks[0];
    axis(context, width, height, 100, (share) => `${share}% of the highest`);
    const y = heights(height, 1);
    CLOCKS.forEach(([field, name, unit], k) => {
      const samples = profile.clocks.filter((s) => s[field] !== null && s.device === device);
      if (!samples.length) return;
      const largest = Math.max(...samples.map((s) => s[field]), 1e-9);
      context.strokeStyle = colors.kinds[[0, 1, 4, 3][k]];
      context.lineWidth = 1.8;
      context.beginPath();
      for (const s of samples) context.lineTo(toX(s.time_us, width), y(s[field] / largest));
      context.stroke();
      legend.push([`${name}, highest ${largest.toFixed(0)} ${unit}`, ["--forward", "--backward", "--device", "--label"][k]]);
    });
    context.fillStyle = colors.mark;
    for (const s of profile.clocks) if (s.throttled.length) context.fillRect(toX(s.time_us, width) - 1, 0, 3, height - BELOW);
    $("clock-device").textContent = `cuda:${device}`;
    swatches($("clock-legend"), legend);
  }

  VIEW.painters.push(drawMemory, drawClocks);
  return { colorName, fillPeak, listenToMemory };
})();
