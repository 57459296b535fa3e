// What the page does on top of what it shows: sort, filter, copy, save. All text is set as text.
"use strict";

document.documentElement.classList.add("scripted");

async function contentOf(element) {
  if (element.dataset.encoding !== "gzip") return element.textContent;
  const packed = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

const documentText = () => contentOf(document.getElementById("document"));

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

/** The value that a text is sorted by: a number where it has one; NaN and infinities come last. */
function valueOf(text, isNumber) {
  if (!isNumber) return text.trim().toLowerCase();
  const known = { inf: Infinity, "": -Infinity }[text.trim().toLowerCase()];
  const value = known ?? Number.parseFloat(text);
  return Number.isNaN(value) ? Infinity : value;
}

/** A row that is there: its texts by column, and the element that shows it. */
function shownRow(element) {
  const texts = [...element.cells].map((cell) => cell.textContent);
  return { texts, failed: element.classList.contains("failed"), id: element.id, element: () => element };
}

/** A text that may go on in the next line at the parts of names. */
function broken(text) {
  const parts = text.split(/(?<=[/._])(?=[A-Za-z])/);
  return parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part]));
}

/** A row of the cells of a sweep, whose element is made when it is looked at. */
function cellRow([kind, ...columns]) {
  const [number] = columns;
  const texts = [...columns];
  texts[9] = columns[9] && "report";
  let made = null;
  const element = () => {
    if (made) return made;
    made = document.createElement("tr");
    made.id = `c${number}`;
    made.className = kind;
    texts.forEach((text, at) => {
      const inner = at === 9 ? "a" : at === 10 ? "code" : null;
      const cell = made.insertCell();
      if (!inner) return cell.append(...broken(text));
      if (!text) return;
      const child = cell.appendChild(document.createElement(inner));
      child.textContent = text;
      if (at === 9) child.href = columns[9];
    });
    return made;
  };
  return { texts, failed: kind === "failed", id: `c${number}`, element };
}

function asCsv(lines) {
  const quoted = (text) => `"${text.trim().replace(/\s+/g, " ").replaceAll('"', '""')}"`;
  return `${lines.map((texts) => texts.map(quoted).join(",")).join("\r\n")}\r\n`;
}

/** What shows the row of an id, also where a filter hides it. */
const revealing = [];

/** Make a table sort and filter its rows. Of very many that match, the first ones are laid out. */
function dress(table, rows, most = Infinity) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const tools = table.parentElement.previousElementSibling;
  tools.hidden = false;
  const [filter, only, count] = [".filter", ".only-failed", ".count"].map((name) => tools.querySelector(name));
  const letters = new Map(rows.map((row) => [row, row.texts.join(" ").toLowerCase()]));
  let matching = rows;
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    matching = rows.filter((row) => (!only.checked || row.failed) && letters.get(row).includes(wanted));
    body.replaceChildren(...matching.slice(0, most).map((row) => row.element()));
    const first = matching.length > most ? `, the first ${most} are shown` : "";
    count.textContent = `${matching.length} of ${rows.length}${first}`;
  };
  const sortBy = (column) => {
    const isNumber = column === 0 || heads[column].classList.contains("number");
    const before = heads[column].getAttribute("aria-sort");
    const first = isNumber && column > 0 ? "descending" : "ascending";
    const direction = before === null ? first : before === "ascending" ? "descending" : "ascending";
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const values = new Map(rows.map((row) => [row, valueOf(row.texts[column] ?? "", isNumber)]));
    rows.sort((a, b) => {
      const [first, second] = [values.get(a), values.get(b)];
      return first < second ? -sign : first > second ? sign : 0;
    });
    show();
  };
  heads.forEach((head, column) => {
    // No element <button>: Chromium would not print the head of such a table on each page.
    const button = document.createElement("span");
    button.role = "button";
    button.tabIndex = 0;
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(column));
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sortBy(column);
    });
    head.append(button);
  });
  filter.addEventListener("input", show);
  only.addEventListener("change", show);
  const titles = heads.map((head) => head.textContent);
  tools.querySelector(".csv").addEventListener("click", () =>
    save(asCsv([titles, ...matching.map((row) => row.texts)]), "outputs.csv", "text/csv"));
  revealing.push((id) => {
    const row = rows.find((each) => each.id === id);
    if (row && !row.element().isConnected) body.prepend(row.element());
  });
  show();
  // What failed is what is looked for: the first such row is in sight, a few that passed above it.
  const failed = rows.findIndex((row) => row.failed);
  const above = failed > 3 && failed < most ? rows[failed - 3].element() : null;
  if (above) table.parentElement.scrollTop = above.offsetTop - table.tHead.offsetHeight;
}

/** The rows of a matrix that are not there yet are added where its end is scrolled to. */
function extend(table, lines) {
  const body = table.tBodies[0];
  const add = () => {
    for (const [model, ...cells] of lines.slice(body.rows.length, body.rows.length + 40)) {
      const row = body.insertRow();
      const head = row.appendChild(document.createElement("th"));
      head.scope = "row";
      head.append(...broken(model));
      for (const cell of cells) {
        const place = row.insertCell();
        if (!cell) continue;
        const link = place.appendChild(document.createElement("a"));
        link.href = `#c${cell[0]}`;
        link.textContent = cell[1];
        if (table.dataset.failures.split(",").includes(cell[1])) link.className = "bad";
      }
    }
  };
  const place = table.parentElement;
  place.addEventListener("scroll", () => {
    if (place.scrollTop + 3 * place.clientHeight > place.scrollHeight) add();
  });
}

async function start() {
  for (const table of document.querySelectorAll("table.outputs")) {
    const held = table.matches(".cells") ? document.getElementById("all-cells") : null;
    if (held) dress(table, JSON.parse(await contentOf(held)).map(cellRow), Number(table.dataset.most));
    else dress(table, [...table.tBodies[0].rows].map(shownRow));
  }
  const lines = document.getElementById("all-models");
  if (lines) extend(document.querySelector("table.matrix"), JSON.parse(await contentOf(lines)));
  reveal();
}

/** A link to a row that a filter hides shows it; one to an element's details opens them. */
function reveal() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id) return;
  for (const each of revealing) each(id);
  const target = document.getElementById(id);
  target?.closest("details")?.setAttribute("open", "");
  target?.scrollIntoView({ block: "center" });
}

addEventListener("hashchange", reveal);

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

start();
