"use strict";
// Sorting and filtering of every table of the page.
(() => {
  const make = (name, about = {}, ...inside) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(about)) element.setAttribute(key, value);
    element.append(...inside);
    return element;
  };

  const key = (row, column) => {
    const said = row.cells[column].dataset.value;
    if (said === undefined) return null;
    const number = Number(said);
    return said.trim() !== "" && Number.isFinite(number) ? number : said;
  };

  const compare = (a, b) => {
    if (a === null || b === null) return 0;
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };

  const sort = (table, column) => {
    const head = table.tHead.rows[0].cells[column];
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, at: key(row, column) }));
    // Blanks stay last, whichever way round.
    rows.sort((a, b) => (a.at === null) - (b.at === null) || (up ? 1 : -1) * compare(a.at, b.at));
    table.tBodies[0].append(...rows.map((one) => one.row));
  };

  const MANY = 3;
  for (const sheet of document.querySelectorAll(".sheet")) {
    const table = sheet.querySelector("table");
    const rows = [...table.tBodies[0].rows];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", { type: "button" }, head.textContent);
      button.addEventListener("click", () => sort(table, column));
      head.replaceChildren(button);
    });
    if (rows.length < MANY) continue;
    const words = make("input", { type: "search", placeholder: "filter rows" });
    words.setAttribute("aria-label", `filter rows of ${sheet.id}`);
    const count = make("output");
    const filter = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !wanted.every((word) => text.includes(word));
      }
      const left = rows.filter((row) => !row.hidden).length;
      count.textContent = `${left} of ${rows.length} rows`;
    };
    words.addEventListener("input", filter);
    filter();
    sheet.querySelector(".scroll").before(make("div", { class: "tools" }, words, count));
  }
})();
