// Parts that any page may have: elements, canvases, tables that sort themselves, a box beside the pointer.
"use strict";

const DOM = (() => {
  const FONT = "11px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
  const $ = (id) => document.getElementById(id);

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

  /** A colour with its name; `why` is shown under the pointer. */
  function swatches(place, entries) {
    place.replaceChildren(...entries.map(([text, color, why = ""]) =>
      element("span", { title: why }, swatch(color), text)));
  }

  const swatch = (color) => element("i", { class: "swatch", style: `background:var(${color})` });

  /** Show `content` beside the pointer. */
  function tip(event, ...content) {
    const box = $("tip");
    box.replaceChildren(...content);
    box.hidden = false;
    const x = Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8);
    const below = event.clientY + 16;
    box.style.left = `${Math.max(x, 4)}px`;
    box.style.top = `${below + box.offsetHeight > window.innerHeight ? event.clientY - box.offsetHeight - 12 : below}px`;
  }

  /** A table that a click on a heading sorts. Columns: key, title, left, code, tip, show(row), bar(row), color(row). */
  function table(place, columns, all, key, { limit = 25, pick = null } = {}) {
    const sort = { key, falling: true };
    let most = limit;
    function fill() {
      const heads = columns.map((column) => element("th", {
        class: column.left ? "left" : "",
        "aria-sort": column.key !== sort.key ? "none" : sort.falling ? "descending" : "ascending",
      }, element("button", { title: "sort by this column", onclick: () => {
        sort.falling = column.key === sort.key ? !sort.falling : !column.left;
        sort.key = column.key;
        fill();
      } }, column.title)));
      const chosen = MODEL.sorted(all, sort.key, sort.falling);
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
    if (column.color) made.append(swatch(column.color(row)));
    if (column.bar) {
      const parts = column.bar(row).map(([share, color]) =>
        element("i", { style: `width:${(100 * share).toFixed(2)}%;background:var(${color})` }));
      made.append(element("span", { class: "share" }, ...parts));
    }
    if (column.tip || column.code) made.title = row[column.tip ?? column.key];
    made.append(column.bar ? element("span", { class: "value" }, text) : text);
    return made;
  }

  return { $, element, prepare, swatches, tip, table };
})();
