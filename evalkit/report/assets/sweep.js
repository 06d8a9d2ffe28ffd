// A leaderboard that its headings sort: numbers from the best known value on, texts by alphabet, and back again.
(() => {
  const table = document.getElementById("board"), body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = () => Array.from(cell.childNodes, (one) => one.className === "column" ? "" : one.textContent).join("").trim();
    return cell.dataset.value === undefined ? text() : Number(cell.dataset.value);
  };
  // Where the page is too narrow for columns, each cell names its own.
  const narrow = window.matchMedia("(max-width: 640px)");
  const name = () => {
    if (!narrow.matches || body.querySelector(".column")) return;
    for (const row of body.rows) Array.from(row.cells).forEach((cell, column) => {
      if (column === 0 || cell.tagName === "TH") return;
      cell.classList.toggle("blank", cell.textContent.trim() === "");
      const label = document.createElement("span");
      label.className = "column";
      label.append(...Array.from(heads[column].querySelector("button").childNodes, (one) => one.cloneNode(true)));
      cell.prepend(label);
    });
  };
  narrow.addEventListener("change", name);
  name();
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "") || 0;
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const all = document.getElementById("all-columns");
  if (all) all.addEventListener("change", () => table.classList.toggle("brief", !all.checked));
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const ordered = head.getAttribute("aria-sort"), number = head.classList.contains("num") && column > 0;
    const ascending = ordered ? ordered !== "ascending" : !number;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const rows = Array.from(body.rows).map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => a === "" || b === "" ? compare(a, b) : ascending ? compare(a, b) : compare(b, a));
    body.append(...rows.map(([, row]) => row));
  }));
})();
