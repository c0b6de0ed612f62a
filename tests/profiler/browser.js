// A small stand-in for a browser: runs the scripts of a page in node and tells what they did.
//
//     node browser.js page.html scenario.js
//
// The scenario is a function body that is called with (page) and returns what is printed as JSON.
"use strict";

const fs = require("fs");
const vm = require("vm");

class Node_ {
  constructor(tag) {
    Object.assign(this, { tag, children: [], attributes: {}, listeners: {}, style: {}, dataset: {}, hidden: false, title: "" });
    this.classes = new Set();
    this.classList = { add: (c) => this.classes.add(c), remove: (c) => this.classes.delete(c) };
    this.scrollTop = 0;
    this.drawn = [];
  }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  addEventListener(name, action) { (this.listeners[name] ??= []).push(action); }
  append(...children) {
    for (const child of children) {
      if (child instanceof Node_) child.parentNode = this;
      this.children.push(child);
    }
  }
  replaceChildren(...children) { this.children = []; this.append(...children); }
  after(node) { node.attributes.after = this.attributes.id; this.parentNode?.append(node); }
  remove() { this.parentNode.children = this.parentNode.children.filter((c) => c !== this); }
  querySelector(selector) { return this.find((n) => n.attributes.class === selector.slice(1))[0] ?? null; }
  contains(node) { return node === this || this.children.some((c) => c instanceof Node_ && c.contains(node)); }
  find(test) {
    const below = this.children.flatMap((c) => (c instanceof Node_ ? c.find(test) : []));
    return test(this) ? [this, ...below] : below;
  }
  set textContent(text) { this.children = [String(text)]; }
  get textContent() { return this.children.map((c) => (c instanceof Node_ ? c.textContent : c)).join(""); }
  get clientWidth() { return 1000; }
  get offsetWidth() { return 200; }
  get offsetHeight() { return 80; }
  getBoundingClientRect() { return { left: 0, top: 0, width: 1000, height: 400 }; }
  getContext() {
    const drawn = this.drawn;
    return new Proxy({ measureText: (text) => ({ width: 6 * text.length }) }, {
      get: (target, name) => target[name] ?? ((...args) => {
        if (args.some((a) => typeof a === "number" && !Number.isFinite(a))) throw new Error(`${String(name)}(${args})`);
        drawn.push([name, ...args]);
      }),
      set: () => true,
    });
  }
  fire(name, event = {}) {
    const given = { target: this, preventDefault() {}, clientX: 0, clientY: 0, ...event };
    for (const action of [...(this.listeners[name] ?? []), this[`on${name}`]]) action?.(given);
  }
}

function open(path) {
  const html = fs.readFileSync(path, "utf8");
  const page = { frames: [], errors: [], byId: {} };
  const root = new Node_("html");
  for (const [whole, tag, id] of html.matchAll(/<(\w+)[^>]*\bid="([\w-]+)"[^>]*>/g)) {
    const node = (page.byId[id] = new Node_(tag));
    node.hidden = / hidden>$/.test(whole);
    node.setAttribute("id", id);
    new Node_("div").append(node);
  }
  const scripts = [...html.matchAll(/<script([^>]*)>([^]*?)<\/script>/g)];
  page.byId.data.textContent = scripts.find(([, kind]) => kind.includes("json"))[2];
  const window = new Node_("window");
  Object.assign(window, {
    devicePixelRatio: 2, innerWidth: 1200, innerHeight: 900, matchMedia: () => new Node_("media"), window,
    document: {
      documentElement: root,
      getElementById: (id) => page.byId[id] ?? null,
      createElement: (tag) => new Node_(tag),
    },
    getComputedStyle: () => ({ getPropertyValue: () => " #123456" }),
    requestAnimationFrame: (action) => page.frames.push(action),
    ResizeObserver: class { observe() {} },
    console: { error: (...text) => page.errors.push(text.join(" ")), log() {}, warn() {} },
    Math, JSON, Map, Set, Object, Number, String, Infinity,
  });
  page.window = window;
  page.root = root;
  page.draw = () => {
    for (const node of Object.values(page.byId)) node.drawn.length = 0;
    while (page.frames.length) page.frames.shift()();
  };
  const context = vm.createContext(window);
  for (const [, kind, text] of scripts) if (!kind.includes("json")) vm.runInContext(text, context);
  page.model = vm.runInContext("MODEL", context);
  page.draw();
  return page;
}

const [path, scenario] = process.argv.slice(2);
const result = new Function("page", fs.readFileSync(scenario, "utf8"))(open(path));
console.log(JSON.stringify(result));
