/* What the header does: from when to when, a link to exactly this, who is signed in; and when the
   server cannot be reached, a banner at once. Loaded before stagewatch.js. */
"use strict";

(() => {
  const prefix = document.documentElement.dataset.prefix || "/";
  const UNITS_MS = { s: 1e3, m: 6e4, h: 36e5, d: 864e5 };
  const rfc3339 = (ms) => new Date(Math.floor(ms / 1000) * 1000).toISOString().replace(".000", "");
  const shown = () => {
    const span = document.getElementById("span");
    return span ? [Number(span.dataset.since) * 1000, Number(span.dataset.until) * 1000] : null;
  };
  const searchOf = (query) => {
    const written = query.toString().replaceAll("%3A", ":");
    return written ? "?" + written : "";
  };
  const moved = (search) => window.dash_clientside.set_props("url", { search });

  // ---- from when to when
  const dialog = () => document.getElementById("when");
  const local = (ms) => {
    const at = new Date(ms - new Date(ms).getTimezoneOffset() * 6e4);
    return at.toISOString().slice(0, 16).replace("T", " ");
  };
  /* As people write it; without a zone it is the reader's own. NaN where it is nothing. */
  const instant = (text, now) => {
    const said = text.trim();
    if (said === "now" || said === "") return now;
    const ago = /^now-(\d{1,9})([smhd])$/.exec(said);
    if (ago) return now - Number(ago[1]) * UNITS_MS[ago[2]];
    if (/^\d{1,2}:\d{2}(:\d{2})?$/.test(said)) {
      return new Date(`${local(now).slice(0, 10)}T${said.padStart(said.length < 6 ? 5 : 8, "0")}`).getTime();
    }
    if (/^\d{9,12}$/.test(said)) return Number(said) * 1000;
    if (/^\d{4}-\d{2}-\d{2}$/.test(said)) return new Date(`${said}T00:00`).getTime();
    return /^\d{4}-\d{2}-\d{2}[ T]\d/.test(said) ? new Date(said.replace(" ", "T")).getTime() : NaN;
  };
  const open = () => {
    const range = shown();
    const query = new URLSearchParams(location.search);
    const live = !query.get("to") || query.get("to") === "now";
    document.getElementById("when-wrong").textContent = "";
    document.getElementById("when-from").value = live ? query.get("from") || "now-1h" : local(range[0]);
    document.getElementById("when-to").value = live ? "now" : local(range[1]);
    dialog().showModal();
  };
  const choose = (form) => {
    const now = Date.now();
    const [since, until] = [form.elements.from.value.trim(), form.elements.to.value.trim() || "now"];
    const [begin, end] = [instant(since, now), instant(until, now)];
    const wrong = document.getElementById("when-wrong");
    if (Number.isNaN(begin) || Number.isNaN(end)) {
      const which = Number.isNaN(begin) ? since : until;
      wrong.textContent = `“${which}” is no time: write it as below.`;
      return;
    }
    if (end - begin < 60000) {
      wrong.textContent = "From lies before To, by a minute at least.";
      return;
    }
    const query = new URLSearchParams(location.search);
    if (until === "now" && /^now-\d+[smhd]$/.test(since)) {
      query.set("from", since);
      query.delete("to");
    } else {
      query.set("from", rfc3339(begin));
      query.set("to", rfc3339(end));
    }
    dialog().close();
    moved(searchOf(query));
  };
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-when]");
    if (!form) return;
    event.preventDefault();
    choose(form);
  });

  // ---- a link that shows tomorrow what is shown now
  const share = async (button) => {
    const range = shown();
    const query = new URLSearchParams(location.search);
    if (range) {
      query.set("from", rfc3339(range[0]));
      query.set("to", rfc3339(range[1]));
    }
    const face = button.dataset.face || button.textContent;
    button.dataset.face = face;
    try {
      await navigator.clipboard.writeText(location.origin + location.pathname + searchOf(query));
      button.textContent = "Copied";
    } catch {
      moved(searchOf(query));
      button.textContent = "In the address bar";
    }
    setTimeout(() => { button.textContent = face; }, 2000);
  };

  // ---- who is here
  const signIn = () => {
    const back = "/" + location.pathname.slice(prefix.length) + location.search;
    return `${prefix}login?next=${encodeURIComponent(back)}`;
  };
  const say = (place, text, href, word, act) => {
    place.replaceChildren(document.createTextNode(text));
    const way = document.createElement(href ? "a" : "button");
    way.textContent = word;
    if (href) way.href = href;
    else Object.assign(way, { className: "button", type: "button" }).dataset.act = act;
    if (word) place.append(" ", way);
    place.hidden = false;
  };
  let person = null;
  const introduce = () => {
    const place = document.getElementById("who");
    if (!place || !person || place.dataset.said === person.name + person.role) return;
    place.dataset.said = person.name + person.role;
    if (person.signed_in) say(place, `You are ${person.name} (${person.role}).`, "", "Sign out", "sign-out");
    else if (person.vouched) say(place, `You are ${person.name} (${person.role}).`, "", "", "");
    else if (person.signs_in) say(place, "You read only.", signIn(), "Sign in", "");
  };
  const who = async () => {
    try {
      const answer = await fetch(`${prefix}api/v1/session`, { credentials: "same-origin" });
      if (answer.ok) person = await answer.json();
      introduce();
    } catch { /* the banner says that nobody answers */ }
  };
  const signOut = async () => {
    await fetch(`${prefix}logout`, { method: "POST", credentials: "same-origin" });
    location.assign(prefix);
  };

  // ---- a server that does not answer, or no longer knows us, is a banner and takes nothing away
  const ask = window.fetch.bind(window);
  let silentSince = null;
  const trouble = (text, href) => {
    const place = document.getElementById("offline");
    if (!place) return;
    place.replaceChildren(document.createTextNode(text));
    if (href) {
      const way = document.createElement("a");
      Object.assign(way, { href, textContent: "Sign in" });
      place.append(" ", way);
    }
    place.hidden = false;
  };
  const judged = (answer) => {
    if (answer.status === 401 || answer.status === 403) {
      trouble("You are signed out: what you see is from before.", signIn());
    } else if (answer.status >= 500) lost();
    else if (silentSince) {
      silentSince = null;
      document.getElementById("offline").hidden = true;
    }
  };
  const lost = () => {
    silentSince = silentSince || new Date();
    trouble(`Stagewatch has not answered since ${silentSince.toLocaleTimeString()}: does it start anew? `
      + "What you see is from before; it is asked again with each refresh.");
  };
  window.fetch = async (resource, options) => {
    const address = String(resource && resource.url ? resource.url : resource);
    if (!address.includes("_dash-update-component")) return ask(resource, options);
    try {
      const answer = await ask(resource, options);
      judged(answer);
      return answer;
    } catch (error) {
      lost();
      throw error;
    }
  };

  /* `label=value`, as it is written by hand. */
  const term = (text) => {
    const found = /^\s*([a-z_]+)\s*=\s*(.*?)\s*$/.exec(text || "");
    return found ? [found[1], found[2]] : ["", ""];
  };
  window.stagewatchFrame = {
    acts: { when: open, "close-when": () => dialog().close(), share, "sign-out": signOut },
    introduce,
    term,
  };
  document.addEventListener("DOMContentLoaded", who);
  if (document.readyState !== "loading") who();
})();
