// What timeline, charts and tables share: the profile, the part of it that is shown, and colours.
"use strict";

const VIEW = (() => {
  const M = MODEL, { $ } = DOM;
  const profile = M.decode(JSON.parse($("data").textContent)), { duration } = profile;
  const state = { view: { start: 0, end: duration }, hover: -1, picked: -1, search: "", found: [], device: 0, cursor: null,
    dragging: false };
  const colors = {}, painters = []; // the painters draw the canvases anew

  const toX = (time, width) => ((time - state.view.start) / (state.view.end - state.view.start)) * width;
  const toTime = (x, width) => state.view.start + (x / width) * (state.view.end - state.view.start);

  let asked = false;
  function redraw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      for (const paint of painters) paint();
    });
  }

  function setView(view) {
    state.view = view;
    redraw();
  }

  function zoomBy(factor, at = (state.view.start + state.view.end) / 2) {
    setView(M.zoom(state.view, factor, at, duration));
  }

  const step = (share) => setView(M.pan(state.view, share * (state.view.end - state.view.start), duration));

  /** The wheel zooms and dragging moves the view that all canvases share; `done` is told of a click. */
  function listenToView(area, done = () => {}) {
    let drag = null;
    area.addEventListener("wheel", (event) => {
      const bounds = area.getBoundingClientRect(), span = state.view.end - state.view.start;
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        setView(M.pan(state.view, ((event.deltaX || event.deltaY) / bounds.width) * span, duration));
      } else {
        const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.006);
        zoomBy(factor, toTime(event.clientX - bounds.left, area.clientWidth));
      }
    }, { passive: false });
    area.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, top: area.scrollTop, view: state.view, moved: false };
    });
    window.addEventListener("pointermove", (event) => {
      if (!drag) return;
      if (Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 3) drag.moved = state.dragging = true;
      if (!drag.moved) return;
      area.classList.add("moving");
      const span = drag.view.end - drag.view.start;
      setView(M.pan(drag.view, ((drag.x - event.clientX) / area.clientWidth) * span, duration));
      area.scrollTop = drag.top + drag.y - event.clientY;
    });
    window.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved && area.contains(event.target)) done(event);
      drag = null;
      state.dragging = false;
      area.classList.remove("moving");
    });
  }

  function setTheme(theme) {
    const root = document.documentElement;
    root.dataset.theme = theme;
    $("theme").textContent = theme === "dark" ? "\u2600 Light" : "\u263e Dark";
    const style = getComputedStyle(root), color = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ["line", "row", "soft", "text", "accent", "mark"]) colors[name] = color(name);
    colors.slice = color("on-slice");
    colors.kinds = ["forward", "backward", "inside", "label", "device"].map(color);
    colors.categories = ["saved", "made", "other"].map(color);
    redraw();
  }

  return { profile, state, colors, painters, toX, toTime, redraw, setView, zoomBy, step, listenToView, setTheme };
})();
