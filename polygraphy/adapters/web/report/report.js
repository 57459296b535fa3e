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
  const known = { inf: Infinity, "": -Infinity, "-": -Infinity }[text.trim().toLowerCase()];
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

/** A row of the cells of a sweep, whose element is there, or made when it is looked at. */
function cellRow([kind, ...columns], shown) {
  const [number] = columns;
  const texts = [...columns];
  texts[9] = columns[9] && "report";
  let made = shown;
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

/** Call what adds to a table whenever its end is nearly scrolled to. */
function extend(table, add) {
  const place = table.parentElement;
  place.addEventListener("scroll", () => {
    if (place.scrollTop + 3 * place.clientHeight > place.scrollHeight) add();
  });
}

function asCsv(lines) {
  const quoted = (text) => `"${text.trim().replace(/\s+/g, " ").replaceAll('"', '""')}"`;
  return `${lines.map((texts) => texts.map(quoted).join(",")).join("\r\n")}\r\n`;
}

/** What shows the row of an id, also where a filter hides it. */
const revealing = [];

/** Make a table sort and filter its rows. Those that are not there yet are read when they are first
 * asked for, and laid out where they are scrolled to, so many at a time. */
function dress(table, held, step = Infinity) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const tools = table.parentElement.previousElementSibling;
  tools.hidden = false;
  const [filter, only, count] = [".filter", ".only-failed", ".count"].map((name) => tools.querySelector(name));
  const there = [...body.rows];
  let rows = held ? null : there.map(shownRow);
  let matching = rows;
  let laidOut = there.length;
  let letters = null;
  let reading = null;
  const read = () => reading ??= rows ? Promise.resolve() : contentOf(held).then((text) => {
    matching = rows = JSON.parse(text).map((columns, at) => cellRow(columns, there[at]));
  });
  const search = (wanted) => {
    letters ??= new Map(rows.map((row) => [row, row.texts.join(" ").toLowerCase()]));
    return (row) => letters.get(row).includes(wanted);
  };
  const tell = (found, all) => { count.textContent = `${found} of ${all}`; };
  const add = () => read().then(() => {
    const next = matching.slice(laidOut, laidOut + step);
    laidOut += next.length;
    body.append(...next.map((row) => row.element()));
  });
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    const found = only?.checked ? rows.filter((row) => row.failed) : [...rows];
    matching = wanted ? found.filter(search(wanted)) : found;
    const first = matching.slice(0, step);
    laidOut = first.length;
    body.replaceChildren(...first.map((row) => row.element()));
    tell(matching.length, rows.length);
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
    const sort = () => read().then(() => sortBy(column));
    button.addEventListener("click", sort);
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort();
    });
    head.append(button);
  });
  filter.addEventListener("input", () => read().then(show));
  only?.addEventListener("change", () => read().then(show));
  const titles = heads.map((head) => head.textContent);
  tools.querySelector(".csv").addEventListener("click", () => read().then(() =>
    save(asCsv([titles, ...matching.map((row) => row.texts)]), "outputs.csv", "text/csv")));
  revealing.push(async (id) => {
    if (document.getElementById(id)) return;
    await read();
    const row = rows.find((each) => each.id === id);
    if (row) body.prepend(row.element());
  });
  const all = held ? table.dataset.all : rows.length;
  tell(all, all);
  if (filter.value || only?.checked) read().then(show);  // What a browser kept when the page was read again.
  if (held) {
    extend(table, add);
    return;
  }
  // What failed is what is looked for: the first such row is in sight, a few that passed above it.
  const failed = rows.findIndex((row) => row.failed);
  const above = failed > 3 ? rows[failed - 3].element() : null;
  if (above) table.parentElement.scrollTop = above.offsetTop - table.tHead.offsetHeight;
}

/** The rows of a matrix that are not there yet. */
function drawModels(table, held) {
  const body = table.tBodies[0];
  let lines = null;
  extend(table, async () => {
    lines ??= contentOf(held).then(JSON.parse);
    const all = await lines;
    for (const [model, ...cells] of all.slice(body.rows.length, body.rows.length + 40)) {
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
  });
}

function start() {
  for (const table of document.querySelectorAll("table.outputs")) {
    const held = table.matches(".cells") ? document.getElementById("all-cells") : null;
    dress(table, held, held ? Number(table.dataset.most) : Infinity);
  }
  const held = document.getElementById("all-models");
  if (held) drawModels(document.querySelector("table.matrix"), held);
  reveal();
}

/** A link to a row that a filter hides shows it; one to an element's details opens them. */
async function reveal() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id) return;
  await Promise.all(revealing.map((each) => each(id)));
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
