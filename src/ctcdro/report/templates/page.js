"use strict";

addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((details) => (details.open = true));
});

// Buttons in table headers sort the rows; missing values are always last.
function value(row, index) {
  const cell = row.cells[index];
  const text = cell.dataset.value ?? (cell.tagName === "TH" ? cell.textContent : "");
  return text === "" ? null : text;
}

function compare(first, second) {
  const difference = Number(first) - Number(second);
  return Number.isNaN(difference) ? first.localeCompare(second, undefined, { numeric: true }) : difference;
}

function sort(head) {
  const table = head.closest("table");
  const index = head.cellIndex;
  const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const rows = [...table.tBodies[0].rows].map((row) => [value(row, index), row]);
  const known = rows.filter(([key]) => key !== null);
  const missing = rows.filter(([key]) => key === null);
  known.sort(([first], [second]) => sign * compare(first, second));
  table.tBodies[0].append(...[...known, ...missing].map(([, row]) => row));
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
}

for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => sort(button.closest("th")));
}

// Shows a hint above each table that is wider than the window.
const wideTables = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    target.previousElementSibling.hidden = target.scrollWidth <= target.clientWidth;
  }
});
document.querySelectorAll(".scroll").forEach((region) => wideTables.observe(region));
