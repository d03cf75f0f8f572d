/* Forms that act: sent as JSON with the header that no other site can send; each says what came of it. */
"use strict";

(() => {
  const HEADER = { "X-Stagewatch-Request": "1", "Content-Type": "application/json" };
  const PREVIEW_AFTER_MS = 300;
  const MOST_NAMES = 6;

  const kept = (name) => {
    try { return localStorage.getItem(`stagewatch-${name}`) || ""; } catch { return ""; }
  };
  const keep = (name, text) => {
    try { localStorage.setItem(`stagewatch-${name}`, text); } catch { /* forgotten with the tab */ }
  };
  const lines = (text) => String(text).split("\n").map((each) => each.trim()).filter(Boolean);

  /* The fields of a form under the names that the API wants; what is empty is left out. */
  const asked = (form, button) => {
    const renamed = JSON.parse(button.dataset.fields || "{}");
    const body = JSON.parse(button.dataset.body || "{}");
    for (const [name, value] of new FormData(form)) {
      const text = String(value).trim();
      const called = renamed[name] || name;
      if (!text) continue;
      if (called === "matchers") body.matchers = lines(text);
      else if (called === "duration_s") body.duration_s = Number(text);
      else if (called === "begins_in_s") {
        if (Number(text)) body.starts_at = new Date(Date.now() + Number(text) * 1000).toISOString();
      } else body[called] = text;
    }
    return body;
  };
  const problem = (answer, status) => {
    const detail = answer && answer.detail;
    if (Array.isArray(detail)) {
      return detail.map((each) => `${(each.loc || []).slice(1).join(".")}: ${each.msg}`).join("; ");
    }
    return detail || `The server answered ${status}.`;
  };
  const ask = async (address, method, body) => {
    const answer = await fetch(address, {
      method, headers: HEADER, credentials: "same-origin",
      body: method === "DELETE" ? undefined : JSON.stringify(body),
    });
    const told = await answer.json().catch(() => null);
    if (!answer.ok) throw new Error(problem(told, answer.status));
    return told;
  };
  const say = (form, text, wrong) => {
    const output = form.querySelector(".answer");
    if (!output) return;
    output.textContent = text;
    output.classList.toggle("wrong", Boolean(wrong));
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-acts]");
    if (!form) return;
    event.preventDefault();
    const button = event.submitter || form.querySelector("[data-send]");
    if (!button || button.disabled) return;
    button.disabled = true;
    say(form, "…");
    try {
      await ask(button.dataset.send, button.dataset.method, asked(form, button));
      say(form, `Done: ${button.textContent.toLowerCase()}.`);
      for (const field of form.querySelectorAll("textarea:not([data-kept])")) {
        field.value = "";
      }
      if (form.dataset.preview) preview(form);
      document.dispatchEvent(new Event("stagewatch-acted"));
    } catch (error) {
      say(form, error.message || "The server could not be reached.", true);
    } finally {
      button.disabled = false;
    }
  });

  /* What the matchers would silence, while they are typed. */
  const counted = (number, one, many) => `${number} ${number === 1 ? one : many}`;
  const names = (all) => {
    const shown = all.slice(0, MOST_NAMES).join(", ");
    return all.length > MOST_NAMES ? `${shown} and ${all.length - MOST_NAMES} more` : shown;
  };
  const told = (found) => {
    const open = found.alerts.map((each) => `${each.objective} (${each.severity})`);
    const whole = found.objectives.filter((each) => each.whole).map((each) => each.name);
    const part = found.objectives.filter((each) => !each.whole).map((each) => each.name);
    if (!open.length && !whole.length && !part.length) {
      return "Matches nothing that is promised or open now.";
    }
    const says = [];
    if (open.length) says.push(`silences ${counted(open.length, "open alert", "open alerts")}: ${names(open)}`);
    if (whole.length) says.push(`every alert of ${counted(whole.length, "promise", "promises")}: ${names(whole)}`);
    if (part.length) says.push(`some alerts of ${counted(part.length, "promise", "promises")}: ${names(part)}`);
    const text = says.join("; ") + ".";
    return text[0].toUpperCase() + text.slice(1);
  };
  let timer = null;
  let asking = 0;
  const preview = async (form) => {
    const output = form.querySelector(".preview");
    const matchers = lines(form.elements.matchers.value);
    const turn = ++asking;
    output.classList.remove("wrong");
    if (!matchers.length) {
      output.textContent = "Nothing yet: write what is to be silent.";
      return;
    }
    try {
      const found = await ask(form.dataset.preview, "POST", { matchers });
      if (turn === asking) output.textContent = told(found);
    } catch (error) {
      if (turn !== asking) return;
      output.textContent = error.message || "The server could not be reached.";
      output.classList.add("wrong");
    }
  };
  document.addEventListener("input", (event) => {
    const field = event.target;
    if (field.dataset && field.dataset.kept) keep(field.dataset.kept, field.value);
    const form = field.form;
    if (!form || !form.dataset.preview || field.name !== "matchers") return;
    clearTimeout(timer);
    timer = setTimeout(() => preview(form), PREVIEW_AFTER_MS);
  });

  /* In a field of one line, Enter sends; a link to the page is copied. */
  document.addEventListener("keydown", (event) => {
    const field = event.target;
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    if (field.tagName !== "TEXTAREA" || field.rows !== 1 || !field.form) return;
    event.preventDefault();
    field.form.requestSubmit();
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest('[data-copy]');
    if (!button) return;
    const face = button.textContent;
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy it from the address bar";
    }
    setTimeout(() => { button.textContent = face; }, 2000);
  });

  /* Forms come and go with pages: fill in who it is, and preview what is there already. */
  const settled = new WeakSet();
  const settle = () => {
    for (const form of document.querySelectorAll("form[data-acts]")) {
      if (settled.has(form)) continue;
      settled.add(form);
      for (const field of form.querySelectorAll("[data-kept]")) {
        if (!field.value) field.value = kept(field.dataset.kept);
      }
      for (const field of form.querySelectorAll("[data-usual]")) field.value = field.dataset.usual;
      if (form.dataset.preview) preview(form);
    }
  };
  let pending = false;
  new MutationObserver(() => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; settle(); });
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
