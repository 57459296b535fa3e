// What the page does on top of what it shows: sort, filter, copy, save. All text is set as text.
"use strict";

document.documentElement.classList.add("scripted");

async function documentText() {
  const element = document.getElementById("document");
  if (element.dataset.encoding !== "gzip") return element.textContent;
  const packed = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function save(text, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const text = button.previousElementSibling.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {  // Not allowed for a file: then it is selected, for the keyboard to copy.
      getSelection().selectAllChildren(button.previousElementSibling);
    }
  });
}

const saving = document.getElementById("save");
saving.hidden = false;
saving.addEventListener("click", async () => save(await documentText(), "report.json", "application/json"));

/** The value that a cell is sorted by: a number where it has one; NaN and infinities come last. */
function valueOf(row, column, isNumber) {
  const text = row.cells[column].textContent.trim().toLowerCase();
  if (!isNumber) return text;
  const value = { inf: Infinity, "": -Infinity }[text] ?? Number.parseFloat(text);
  return Number.isNaN(value) ? Infinity : value;
}

function sortBy(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const isNumber = column === 0 || heads[column].classList.contains("number");
  const before = heads[column].getAttribute("aria-sort");
  const first = isNumber && column > 0 ? "descending" : "ascending";
  const direction = before === null ? first : before === "ascending" ? "descending" : "ascending";
  for (const head of heads) head.removeAttribute("aria-sort");
  heads[column].setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [valueOf(row, column, isNumber), row]);
  rows.sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0));
  body.append(...rows.map(([, row]) => row));
  table.dispatchEvent(new Event("sorted"));
}

function asCsv(table) {
  const quoted = (text) => `"${text.trim().replace(/\s+/g, " ").replaceAll('"', '""')}"`;
  const rows = [...table.rows].filter((row) => !row.hidden || "more" in row.dataset);
  return `${rows.map((row) => [...row.cells].map((cell) => quoted(cell.textContent)).join(",")).join("\r\n")}\r\n`;
}

for (const table of document.querySelectorAll("table.outputs")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    // No element <button>: Chromium would not print the head of such a table on each page.
    const button = document.createElement("span");
    button.role = "button";
    button.tabIndex = 0;
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(table, column));
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sortBy(table, column);
    });
    head.append(button);
  });
  const tools = table.parentElement.previousElementSibling;
  tools.hidden = false;
  const [filter, only, count] = [".filter", ".only-failed", ".count"].map((name) => tools.querySelector(name));
  const rows = [...table.tBodies[0].rows];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  // A browser takes long to lay out very many rows: of those that match, the first ones are shown.
  const most = Number(table.dataset.most ?? Infinity);
  const update = () => {
    const wanted = filter.value.trim().toLowerCase();
    let matching = 0;
    for (const row of table.tBodies[0].rows) {
      const matches = (!only.checked || row.classList.contains("failed")) && texts.get(row).includes(wanted);
      matching += matches;
      row.hidden = !matches || matching > most;
      if (matches && row.hidden) row.dataset.more = "";
      else delete row.dataset.more;
    }
    const first = matching > most ? `, the first ${most} are shown` : "";
    count.textContent = `${matching} of ${rows.length}${first}`;
  };
  table.addEventListener("sorted", update);
  filter.addEventListener("input", update);
  only.addEventListener("change", update);
  tools.querySelector(".csv").addEventListener("click", () => save(asCsv(table), "outputs.csv", "text/csv"));
  update();
  // What failed is what is looked for: the first such row is in sight, a few that passed above it.
  const failed = rows.findIndex((row) => row.classList.contains("failed"));
  if (failed > 3) table.parentElement.scrollTop = rows[failed - 3].offsetTop - table.tHead.offsetHeight;
}

/** A link to a row that a filter hides shows it; one to an element's details opens them. */
addEventListener("hashchange", () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target?.hidden) target.hidden = false;
  target?.closest("details")?.setAttribute("open", "");
  target?.scrollIntoView({ block: "center" });
});

/** Nobody opens anything on paper: what is closed is open while the page is printed. */
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const each of closed) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of closed) each.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input")) return;
  const filter = document.querySelector(".filter");
  if (!filter) return;
  event.preventDefault();
  filter.focus();
});
