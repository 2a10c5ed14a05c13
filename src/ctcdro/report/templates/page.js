"use strict";

// Figures are drawn when they come near the window, so that a phone opens the page at once.
const specs = new Map();
for (const script of document.querySelectorAll("script[data-for]")) {
  specs.set(script.dataset.for, JSON.parse(script.textContent));
}

function themed(layout) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const line = style.getPropertyValue("--line").trim();
  const paper = style.getPropertyValue("--paper").trim();
  const own = structuredClone(layout);
  own.paper_bgcolor = own.plot_bgcolor = "rgba(0,0,0,0)";
  own.font = { ...own.font, color: ink, family: getComputedStyle(document.body).fontFamily };
  own.hoverlabel = { bgcolor: paper, font: { color: ink } };
  for (const key of Object.keys(own).filter((name) => /^[xy]axis/.test(name))) {
    own[key] = { gridcolor: line, zerolinecolor: line, linecolor: line, ...own[key] };
  }
  return own;
}

function inked(data) {
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  return data.map((trace) => (trace.error_x ? { ...trace, error_x: { ...trace.error_x, color: ink } } : trace));
}

function draw(plot) {
  const { data, layout } = specs.get(plot.id);
  plot.dataset.drawn = "yes";
  return Plotly.react(plot, inked(data), themed(layout), { responsive: true, displayModeBar: false });
}

const plots = [...document.querySelectorAll(".plot")];
const observer = new IntersectionObserver(
  (entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      observer.unobserve(entry.target);
      draw(entry.target);
    }
  },
  { rootMargin: "400px" },
);
plots.forEach((plot) => observer.observe(plot));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  plots.filter((plot) => plot.dataset.drawn).forEach(draw);
});

addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((one) => (one.open = true));
  plots.filter((plot) => !plot.dataset.drawn).forEach(draw);
});

// Tables are sorted by the buttons in their heads; what is missing comes last either way.
function value(row, place) {
  const cell = row.cells[place];
  const text = cell.dataset.value ?? (cell.tagName === "TH" ? cell.textContent : "");
  return text === "" ? null : text;
}

function compared(one, other) {
  const [ours, theirs] = [Number(one), Number(other)];
  const bothNumbers = !Number.isNaN(ours) && !Number.isNaN(theirs);
  return bothNumbers ? ours - theirs : one.localeCompare(other, undefined, { numeric: true });
}

function sort(head) {
  const table = head.closest("table");
  const place = head.cellIndex;
  const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const rows = [...table.tBodies[0].rows].map((row) => [value(row, place), row]);
  const there = rows.filter(([own]) => own !== null);
  const missing = rows.filter(([own]) => own === null);
  there.sort(([one], [other]) => sign * compared(one, other));
  table.tBodies[0].append(...[...there, ...missing].map(([, row]) => row));
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
}

for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => sort(button.closest("th")));
}

// A table that is wider than the window says so.
const wideTables = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    target.previousElementSibling.hidden = target.scrollWidth <= target.clientWidth;
  }
});
document.querySelectorAll(".scroll").forEach((one) => wideTables.observe(one));
