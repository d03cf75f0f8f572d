/* What is wrong with a page as it is drawn: what scrolls sideways, is cut off, or lies over something else. */
() => {
  const found = new Set();
  const root = document.documentElement;
  const told = (text) => text.trim().slice(0, 40);
  if (root.scrollWidth > root.clientWidth) found.add(`the page scrolls sideways by ${root.scrollWidth - root.clientWidth} px`);

  const NOT_SHOWN = "svg, .unseen, [hidden], dialog:not([open]), details:not([open]) > :not(summary), noscript, script, style, thead, datalist, option, .skip";
  const holder = (element, test) => {
    for (let each = element; each && each !== document.body; each = each.parentElement) if (test(getComputedStyle(each))) return each;
    return null;
  };
  const scrolls = (style) => /auto|scroll/.test(style.overflowX);
  const clips = (style) => scrolls(style) || style.overflowX !== "visible" || style.overflowY !== "visible";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest(NOT_SHOWN)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((box) => box.width > 1);
    if (!boxes.length) continue;
    const right = Math.max(...boxes.map((box) => box.right));
    const left = Math.min(...boxes.map((box) => box.left));
    if ((right > root.clientWidth + 1 || left < -1) && !holder(element, scrolls)) found.add(`beyond the page: ${told(node.textContent)}`);
    const box = holder(element, clips);
    if (!box || scrolls(getComputedStyle(box))) continue;
    const edge = box.getBoundingClientRect();
    const low = getComputedStyle(box).overflowY === "hidden" && Math.max(...boxes.map((each) => each.bottom)) > edge.bottom + 2;
    if (right > edge.right + 1 || low) found.add(`cut off: ${told(node.textContent)}`);
  }

  for (const plot of document.querySelectorAll(".js-plotly-plot")) {
    const edge = plot.getBoundingClientRect();
    const lines = (text) => (text.querySelector("tspan") ? [...text.querySelectorAll("tspan")] : [text]);
    const texts = [...plot.querySelectorAll("text")].flatMap(lines)
      .filter((each) => each.textContent.trim() && getComputedStyle(each).visibility !== "hidden")
      .map((each) => [told(each.textContent), each.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0);
    for (const [text, box] of texts) {
      if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1 || box.bottom > edge.bottom + 1) {
        found.add(`cut off in a chart: ${text}`);
      }
    }
    texts.forEach(([text, box], place) => {
      for (const [other, its] of texts.slice(0, place)) {
        const wide = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const high = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        if (wide > 3 && high > 8) found.add(`one over the other in a chart: ${text}, ${other}`);
      }
    });
    const figure = plot.closest("figure[aria-labelledby]");
    if (!figure || !document.getElementById(figure.getAttribute("aria-labelledby")).textContent.trim()) found.add("a chart without a name");
  }
  if (document.querySelector("main img")) found.add("markup became an image");
  if (window.hacked !== undefined || document.title === "1") found.add("a name ran as a script");
  return [...found];
}
