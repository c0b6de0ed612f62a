// The timeline: tracks of slices, and arrows between forward and backward.
"use strict";

const TIMELINE = (() => {
  const M = MODEL, { $, element, prepare, tip } = DOM;
  const { profile, state, colors, toX, toTime, redraw, setView, listenToView } = VIEW;
  const { slices, tracks, rows, duration } = profile;
  const ROW = 18, HEAD = 20, GAP = 6, ARROWS = 34; // the last is room for arrows below the tracks
  const DOTS = 11; // pixels that the dots after a cut name take

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
      const text = M.time(mark, step, end);
      if (x + 4 + context.measureText(text).width <= width) context.fillText(text, x + 4, 15);
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
    // whole pixels: the edges of many short slices would blur into each other
    const left = Math.round(Math.max(x0, 0)), right = Math.max(Math.round(Math.min(x1, width)), left + 1);
    const name = nameOf(i);
    context.globalAlpha = state.search && !name.toLowerCase().includes(state.search) ? 0.18 : 1;
    context.fillStyle = colors.kinds[slices.kind[i]];
    context.fillRect(left, y, right - left - (right - left > 3 ? 1 : 0), ROW - 2);
    if (right - left > 26) {
      const room = right - left - 6, wide = context.measureText(name).width;
      const letters = Math.floor((name.length * (room - DOTS)) / wide);
      context.fillStyle = slices.kind[i] === 3 ? colors.text : colors.slice;
      context.fillText(wide > room ? `${name.slice(0, letters)}\u2026` : name, left + 3, y + ROW / 2 - 0.5);
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

  function show(i, other = i) {
    state.picked = i;
    describe(i);
    setView(M.around(profile, i, duration, other));
    $("scroller").scrollTop = Math.max(0, top[rowOf(i)] - 120);
  }

  // -- what is under the pointer ------------------------------------------------------------------------------------

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
      box.replaceChildren("Time runs to the right; what an operation calls lies below it. Hover over a slice to see what it "
        + "is linked with, click to keep that. Wheel or w s zoom, dragging or a d move, 0 shows all, ? lists all keys.");
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

  /** Where on the screen the middle of a slice is. */
  function placeOf(i) {
    const bounds = $("tracks").getBoundingClientRect();
    const x = toX(slices.start[i] + slices.dur[i] / 2, bounds.width);
    return { x: bounds.left + x, y: bounds.top + top[rowOf(i)] + ROW / 2 };
  }

  function pick(i) {
    state.picked = i;
    describe(i);
    redraw();
  }

  function listenToTimeline() {
    const area = $("scroller");
    listenToView(area, (event) => pick(sliceAt(event)));
    area.addEventListener("pointermove", (event) => {
      if (state.dragging) return;
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
    $("search").addEventListener("input", (event) => search(event.target.value));
    $("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") search("");
    });
  }

  function search(text) {
    state.search = text.trim().toLowerCase();
    if ($("search").value !== text) $("search").value = text;
    const wanted = profile.names.map((name) => name.toLowerCase().includes(state.search));
    state.found = state.search ? slices.name.flatMap((name, i) => (wanted[name] ? [i] : [])) : [];
    $("found").textContent = state.search ? `${state.found.length} found${state.found.length ? " (Enter: next)" : ""}` : "";
    redraw();
  }

  /** Show the next slice that was searched for, or the one before. */
  function next(direction) {
    if (!state.found.length) return;
    const { found } = state, at = found.indexOf(state.picked);
    show(found[at < 0 ? 0 : (at + direction + found.length) % found.length]);
  }

  VIEW.painters.push(drawRuler, drawTracks);
  return { describe, listenToTimeline, next, pick, placeOf, search, show };
})();
