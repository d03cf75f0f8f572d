/* A chart as a picture or as a table of numbers, for a ticket or a review. */
"use strict";

(() => {
  const prefix = document.documentElement.dataset.prefix || "/";
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const plotOf = (button) => button.closest("figure").querySelector(".js-plotly-plot");
  const nameOf = (plot) => JSON.parse(plot.closest("[id^='{']").id).chart;
  const captionOf = (button) => {
    const caption = button.closest("figure").querySelector("figcaption");
    const parts = [caption.querySelector("h3"), ...caption.querySelectorAll("p span")];
    return parts.filter(Boolean).map((each) => each.textContent.trim()).join(" · ").slice(0, 140);
  };
  const place = () => location.pathname.slice(prefix.length).replaceAll(/[^\w.-]+/g, "-") || "fleet";

  const csv = (button) => {
    const query = new URLSearchParams(location.search);
    query.set("page", "/" + location.pathname.slice(prefix.length));
    const link = document.createElement("a");
    link.href = `${prefix}api/v1/charts/${encodeURIComponent(nameOf(plotOf(button)))}.csv?${query}`;
    link.download = "";
    link.click();
  };

  /* The style sheet colours what is on the page; a picture carries its colours itself. */
  const coloured = (plot) => {
    const text = css("--text");
    const data = plot.data.map((trace) => {
      const stage = /^(?:first|then)-(\w+?)-next-/.exec(trace.uid || "");
      return stage ? { ...trace, uid: undefined, fillcolor: css(`--stage-${stage[1]}`) } : { ...trace };
    });
    const old = plot.layout;
    const axis = (each) => ({ ...each, color: text });
    const layout = {
      ...old, paper_bgcolor: css("--page"), plot_bgcolor: css("--page"),
      font: { ...old.font, color: text }, xaxis: axis(old.xaxis), yaxis: axis(old.yaxis),
      annotations: (old.annotations || []).map((each) => ({ ...each, font: { color: text, size: 12 } })),
      margin: { ...old.margin, t: 56, l: 48, b: 36 }, width: undefined, height: undefined, autosize: false,
    };
    return { data, layout };
  };
  const png = async (button) => {
    const plot = plotOf(button);
    const { data, layout } = coloured(plot);
    const heading = { text: captionOf(button), x: 0, xref: "paper", xanchor: "left", font: { size: 13 } };
    const size = { width: Math.max(plot.clientWidth, 640), height: plot.clientHeight + 56 };
    const picture = { data, layout: { ...layout, title: heading, ...size } };
    const url = await window.Plotly.toImage(picture, { format: "png", scale: 2, ...size });
    const link = document.createElement("a");
    link.href = url;
    link.download = `stagewatch-${place()}-${nameOf(plot)}.png`;
    link.click();
  };

  const ways = { csv, png };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-chart]");
    if (!button) return;
    const face = button.textContent;
    try {
      await ways[button.dataset.chart](button);
    } catch (error) {
      button.textContent = "Did not work";
      button.title = String(error);
      setTimeout(() => { button.textContent = face; }, 4000);
    }
  });
})();
