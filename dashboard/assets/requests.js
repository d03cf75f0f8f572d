/* The fields of the requests page and presses on charts become addresses; ids can be copied. */
"use strict";

(() => {
  const go = (href) => {
    const anchor = document.createElement("a");
    anchor.href = href;
    anchor.dataset.nav = "1";
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
  };
  const written = (query) => {
    const text = query.toString().replaceAll("%3A", ":");
    return location.pathname + (text ? "?" + text : "");
  };

  // ---- fields
  const labels = (text) => String(text).split(/[\n,]+|\s{2,}/).map((each) => each.trim()).filter(Boolean);
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-sieve]");
    if (!form) return;
    event.preventDefault();
    const query = new URLSearchParams(location.search);
    const known = form.dataset.sieve.split(" ");
    const over = form.elements.over.value.trim().replace(",", ".");
    if (over) query.set("over", over);
    else query.delete("over");
    for (const each of labels(form.elements.where.value)) {
      const name = each.split("=")[0];
      if (!known.includes(name)) continue;
      const kept = query.getAll("where").filter((one) => one.split("=")[0] !== name);
      query.delete("where");
      for (const one of [...kept, each]) query.append("where", one);
    }
    form.elements.where.value = "";
    go(written(query));
  });
  document.addEventListener("keydown", (event) => {
    const field = event.target.closest("form[data-sieve] textarea");
    if (!field || event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    field.form.requestSubmit();
  });
  /* A field shows what the address says, unless somebody is writing into it. */
  new MutationObserver(() => {
    for (const field of document.querySelectorAll("form[data-sieve] [data-shown]")) {
      if (field.dataset.seen === field.dataset.shown || field === document.activeElement) continue;
      field.dataset.seen = field.dataset.shown;
      field.value = field.dataset.shown;
    }
  }).observe(document.documentElement, { childList: true, subtree: true, attributeFilter: ["data-shown"] });

  // ---- ids
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      // a page without https may not write there: the id is selected instead
      const id = button.parentElement.querySelector(".id");
      getSelection().selectAllChildren(id);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  // ---- presses on charts: a dot is a request, a step is the requests in it
  const instant = (at) => {
    const [y, mo, d, h = 0, mi = 0, s = 0] = String(at).split(/[-: T]/).map(Number);
    return new Date(y, mo - 1, d, h, mi, Math.floor(s)).getTime();
  };
  const rfc = (ms) => new Date(ms).toISOString().slice(0, 19) + "Z";
  const stepped = (meta, x) => {
    const step = meta.step_s * 1000;
    const since = Math.round((instant(x) - step / 2) / 1000) * 1000;
    const url = new URL(meta.open, location.href);
    url.searchParams.set("from", rfc(since));
    url.searchParams.set("to", rfc(since + Math.max(step, 60000)));
    return url.pathname + "?" + url.searchParams.toString().replaceAll("%3A", ":");
  };
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.requests = {
    press(_all) {
      const keep = window.dash_clientside.no_update;
      const changed = window.dash_clientside.callback_context.triggered[0];
      const point = changed && changed.value && changed.value.points && changed.value.points[0];
      if (!point) return keep;
      const place = document.getElementById(changed.prop_id.replace(/\.clickData$/, ""));
      const drawn = place && place.querySelector(".js-plotly-plot");
      const meta = (drawn && drawn.layout && drawn.layout.meta) || {};
      if (meta.one && typeof point.customdata === "string") go(meta.one + point.customdata);
      else if (meta.open && meta.step_s) go(stepped(meta, point.x));
      return keep;
    },
  };
})();
