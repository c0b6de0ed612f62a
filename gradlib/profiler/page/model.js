// The profile as the page uses it: no document and no canvas here, so that it also runs in node.
"use strict";

const MODEL = (() => {
  const KINDS = ["forward", "backward", "inside backward", "label", "device"];
  const MIN_SPAN = 0.05; // us: the closest that one can look

  /** Rows of slices (one for each nesting depth of each track) and the way back from forward to backward. */
  function decode(data) {
    const slices = data.slices, rows = [], tracks = [];
    for (const track of data.tracks) {
      tracks.push({ ...track, firstRow: rows.length });
      for (let depth = 0; depth < track.depth; depth++) rows.push([]);
    }
    const backward = new Map();
    slices.start.forEach((_, i) => {
      rows[tracks[slices.track[i]].firstRow + slices.depth[i]].push(i);
      const maker = slices.forward[i];
      if (maker >= 0) backward.set(maker, [...(backward.get(maker) ?? []), i]);
    });
    return { ...data, tracks, rows, backward };
  }

  /** Where in a row the first slice is that ends after a time: slices of a row do not overlap. */
  function firstAfter(profile, row, time) {
    const { start, dur } = profile.slices;
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[row[middle]] + dur[row[middle]] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The slice of a row at a time, or one so short that it cannot be hit otherwise; -1 if there is none. */
  function hit(profile, row, time, slack) {
    const { start, dur } = profile.slices;
    const at = firstAfter(profile, row, time - slack);
    let best = -1, distance = Infinity;
    for (let k = at; k < row.length && start[row[k]] <= time + slack; k++) {
      const i = row[k], end = start[i] + dur[i];
      const away = time < start[i] ? start[i] - time : time > end ? time - end : 0;
      if (away < distance) [best, distance] = [i, away];
    }
    return best;
  }

  /** What to draw of a row: [x0, x1, slice]; slices within one pixel become one box. */
  function boxes(profile, row, view, width) {
    const { start, dur } = profile.slices, scale = width / (view.end - view.start), found = [];
    let k = firstAfter(profile, row, view.start);
    while (k < row.length && start[row[k]] < view.end) {
      const i = row[k], x0 = (start[i] - view.start) * scale, x1 = x0 + dur[i] * scale;
      const last = found[found.length - 1];
      if (x1 - x0 < 1 && last && x0 < last[0] + 1 && last[1] - last[0] <= 1) {
        k = Math.max(k + 1, firstAfter(profile, row, view.start + (last[0] + 1) / scale)); // the first beyond it
        continue;
      }
      found.push([x0, Math.max(x1, x0 + 1), i]);
      k++;
    }
    return found;
  }

  /** All that a slice is linked with: pairs [forward, backward] through it. */
  function links(profile, i) {
    const pairs = (profile.backward.get(i) ?? []).map((b) => [i, b]);
    const maker = profile.slices.forward[i];
    return maker >= 0 ? [[maker, i], ...pairs] : pairs;
  }

  /** A view zoomed around a time, inside the profile's bounds. */
  function zoom(view, factor, time, duration) {
    const span = Math.min(Math.max((view.end - view.start) * factor, MIN_SPAN), duration);
    const share = (time - view.start) / (view.end - view.start);
    return inside(time - share * span, span, duration);
  }

  function pan(view, by, duration) {
    return inside(view.start + by, view.end - view.start, duration);
  }

  function inside(start, span, duration) {
    const first = Math.min(Math.max(start, 0), Math.max(duration - span, 0));
    return { start: first, end: first + span };
  }

  /** A view in which a slice can be seen well, together with another one if that is given. */
  function around(profile, i, duration, other = i) {
    const { start, dur } = profile.slices;
    const first = Math.min(start[i], start[other]);
    const last = Math.max(start[i] + dur[i], start[other] + dur[other]);
    const span = Math.min(Math.max((last - first) * 1.6, MIN_SPAN), duration);
    return inside((first + last - span) / 2, span, duration);
  }

  /** Times for a ruler: a step of 1, 2 or 5 times a power of ten. */
  function ticks(start, end, most) {
    const raw = (end - start) / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5, 10].find((m) => power * m >= raw) ?? 10);
    const found = [];
    for (let k = Math.ceil(start / step); k * step <= end; k++) found.push(k * step);
    return found;
  }

  /** A time with its unit; on a ruler with as many digits as its step needs, in the unit that suits its largest time. */
  function time(us, step = 0, largest = 0) {
    const size = Math.max(Math.abs(us), step, largest);
    const [unit, scale] = size >= 1e6 ? ["s", 1e6] : size >= 1e3 ? ["ms", 1e3] : ["us", 1];
    const digits = step ? Math.min(Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9)), 6)
      : us / scale >= 100 ? 1 : us / scale >= 10 ? 2 : 3;
    return `${(us / scale).toFixed(us || step ? digits : 0)} ${unit.replace("us", "\u00b5s")}`;
  }

  function bytes(n) {
    for (const [unit, size] of [["GB", 2 ** 30], ["MB", 2 ** 20], ["KB", 2 ** 10]])
      if (Math.abs(n) >= size) return `${(n / size).toFixed(2)} ${unit}`;
    return `${n} B`;
  }

  /** A curve of steps in pixels: for each column of pixels the largest sum in it, split into categories. */
  function columns(times, sizes, view, width) {
    const found = [], span = (view.end - view.start) / width;
    let k = 0;
    for (let x = 0; x < width; x++) {
      const from = view.start + x * span, to = from + span;
      while (k + 1 < times.length && times[k + 1] <= from) k++;
      let best = k;
      for (let j = k + 1; j < times.length && times[j] < to; j++) if (sum(sizes[j]) > sum(sizes[best])) best = j;
      found.push(times.length && times[best] < to ? sizes[best] : null);
    }
    return found;
  }

  /** The values of a curve of steps at a time. */
  function valueAt(times, sizes, at) {
    let low = 0, high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= at) low = middle + 1;
      else high = middle;
    }
    return low ? sizes[low - 1] : null;
  }

  const sum = (values) => values.reduce((a, b) => a + b, 0);

  /** Rows in the order of a column: numbers by size, texts by alphabet; equal ones keep their order. */
  function sorted(rows, column, falling) {
    const sign = falling ? -1 : 1;
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    return [...rows].sort((a, b) => sign * compare(a[column], b[column]));
  }

  return {
    KINDS, decode, firstAfter, hit, boxes, links, zoom, pan, around, ticks, time, bytes, columns, valueAt, sum, sorted,
  };
})();

if (typeof module !== "undefined") module.exports = MODEL;
