/* When a page asks for values, what keys and drags mean, and which theme is shown. */
"use strict";

(() => {
  const PATIENCE_MS = 20000;
  const state = { path: null, asked: null, search: null, acted: 0 };
  const setProps = (id, props) => window.dash_clientside.set_props(id, props);

  // ---- theme: the system's, unless the reader chose one
  const stored = () => {
    try { return localStorage.getItem("stagewatch-theme"); } catch { return null; }
  };
  const wear = (theme) => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  const isDark = () =>
    (stored() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const turn = () => {
    const next = isDark() ? "light" : "dark";
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    try {
      if (next === system) localStorage.removeItem("stagewatch-theme");
      else localStorage.setItem("stagewatch-theme", next);
    } catch { /* a browser without storage forgets the choice with the tab */ }
    wear(next === system ? null : next);
  };
  wear(stored());

  // ---- where the reader is
  const told = (pathname, search) => ({
    path: pathname,
    search: search || "",
    zone: Intl.DateTimeFormat().resolvedOptions().timeZone || "",
    offset: -new Date().getTimezoneOffset(),
    host: location.hostname,
    acted: Date.now() - state.acted < 60000,
    id: `${Date.now()}-${Math.random().toString(36).slice(2)}`,
  });
  const standsStill = (search) => {
    const until = new URLSearchParams(search || "").get("to");
    return until !== null && until !== "now";
  };
  const go = (href) => {
    const url = new URL(href, location.href);
    setProps("url", { pathname: url.pathname, search: url.search });
    if (url.pathname !== location.pathname) window.scrollTo(0, 0);
  };

  const found = (text) => {
    const query = new URLSearchParams(location.search);
    if ((query.get("find") || "") === (text || "")) return window.dash_clientside.no_update;
    if (text) query.set("find", text);
    else query.delete("find");
    const written = query.toString().replaceAll("%3A", ":");
    return written ? "?" + written : "";
  };

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.stagewatch = {
    /* A new page for a new path, new values for a new query; a tick asks for new values unless
       nobody looks, the window stands still, or the last question is still open. */
    ask(pathname, search, _ticks, _wake, answered) {
      const keep = window.dash_clientside.no_update;
      const now = Date.now();
      const open = state.asked && state.asked.id !== answered;
      const waited = open ? now - state.asked.at : 0;
      const moved = pathname !== state.path || search !== state.search;
      if (!moved && (document.hidden || standsStill(search) || (open && waited < PATIENCE_MS))) {
        return [keep, keep, keep, keep];
      }
      const question = told(pathname, search);
      const page = pathname !== state.path || (open && state.asked.page);
      const lost = !moved && open;
      const since = lost ? new Date(state.lost || state.asked.at) : null;
      if (lost) state.lost = state.lost || state.asked.at;
      Object.assign(state, { path: pathname, search, asked: { id: question.id, at: now, page } });
      const says = lost
        ? `Stagewatch has not answered since ${since.toLocaleTimeString()}. What you see is from before; it is asked again with each refresh.`
        : keep;
      return [page ? question : keep, page ? keep : question, says, lost ? false : keep];
    },
    answered(_id) {
      state.lost = null;
      return true;
    },
    /* A drag across a chart shows that stretch, standing still, on all of them. */
    zoom(_all) {
      const changed = window.dash_clientside.callback_context.triggered[0];
      const range = changed && changed.value;
      if (!range || range["xaxis.range[0]"] === undefined) return window.dash_clientside.no_update;
      const instant = (text) => {
        const [y, mo, d, h = 0, mi = 0, s = 0] = String(text).split(/[-: T]/).map(Number);
        return new Date(y, mo - 1, d, h, mi, Math.floor(s));
      };
      const since = instant(range["xaxis.range[0]"]);
      const until = instant(range["xaxis.range[1]"]);
      if (!(until - since > 0)) return window.dash_clientside.no_update;
      const query = new URLSearchParams(location.search);
      const least = new Date(Math.max(until.getTime(), since.getTime() + 60000));
      query.set("from", since.toISOString().slice(0, 19) + "Z");
      query.set("to", least.toISOString().slice(0, 19) + "Z");
      return "?" + query.toString().replaceAll("%3A", ":");
    },
    /* `label=value` written into the filter is one more in the address, and leaves the field. */
    filter(text) {
      const keep = window.dash_clientside.no_update;
      const [name, value] = window.stagewatchFrame.term(text);
      if (!name) return [keep, keep];
      const query = new URLSearchParams(location.search);
      const others = query.getAll("where").filter((each) => !each.startsWith(`${name}=`));
      query.delete("where");
      for (const each of others) query.append("where", each);
      if (value) query.append("where", `${name}=${value}`);
      const written = query.toString().replaceAll("%3A", ":");
      return [written ? "?" + written : "", ""];
    },
    // why not debounce of the box: its timer outlives the box, and fails when the page has changed
    find(text) {
      const turn = state.typed = (state.typed || 0) + 1;
      return new Promise((told) => setTimeout(() => {
        const box = document.getElementById("find");
        told(turn === state.typed && box ? found(text) : window.dash_clientside.no_update);
      }, 300));
    },
  };

  // ---- links, buttons, keys
  const dialog = () => document.getElementById("keys");
  const acts = {
    theme: turn,
    keys: () => dialog().showModal(),
    close: () => dialog().close(),
    ...window.stagewatchFrame.acts,
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (button) return acts[button.dataset.act](button);
    const anchor = event.target.closest("a[data-nav]");
    const plain = !event.defaultPrevented && event.button === 0
      && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (anchor && plain) {
      event.preventDefault();
      go(anchor.href);
    }
  });

  let before = "";
  const press = (selector) => {
    const found = document.querySelector(selector);
    if (found) found.click();
    return Boolean(found);
  };
  const places = { f: "fleet", a: "alerts", s: "silences", r: "requests", g: "gpus", e: "endpoints",
    p: "probes", b: "balance", u: "status" };
  const keys = {
    "?": () => { acts.keys(); return true; },
    "/": () => { const box = document.getElementById("find"); if (box) box.focus(); return Boolean(box); },
    t: () => { turn(); return true; },
    w: () => press('[data-act="when"]'),
    c: () => press("#compare"),
    y: () => press('[data-act="share"]'),
    l: () => press("#live"),
    "[": () => press("#earlier"),
    "]": () => press("#later"),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing && event.key === "Escape") typing.blur();
    if (typing || event.metaKey || event.ctrlKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    let done = false;
    if (before === "g" && places[event.key]) done = press(`#${places[event.key]}-link`);
    else if (/^[1-5]$/.test(event.key)) done = press(`.time .spans a:nth-child(${event.key})`);
    else if (keys[event.key]) done = keys[event.key]();
    before = event.key;
    if (done) event.preventDefault();
  });
  document.addEventListener("stagewatch-acted", () => {
    state.acted = Date.now();
    setProps("wake", { data: state.acted });
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) setProps("wake", { data: Date.now() });
  });

  // ---- the tab's title carries the state; a new page takes the focus
  let heading = null;
  const settle = () => {
    const title = document.getElementById('{"region":"title"}');
    if (title && title.textContent) document.title = title.textContent;
    window.stagewatchFrame.introduce();
    const main = document.getElementById("main");
    if (main && main !== heading) {
      if (heading) main.focus({ preventScroll: true });
      heading = main;
    }
  };
  let pending = false;
  new MutationObserver(() => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; settle(); });
  }).observe(document.documentElement, { childList: true, subtree: true, characterData: true });
})();
