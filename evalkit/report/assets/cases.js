// Filters of cases. The address names the filter, so that other pages can link to it.
(() => {
  const cases = Array.from(document.querySelectorAll("#cases .case"));
  const buttons = Array.from(document.querySelectorAll("[data-filter]"));
  const shown = document.getElementById("shown");
  const images = document.getElementById("images");
  const sources = images ? JSON.parse(images.textContent) : {};
  for (const box of document.querySelectorAll("#cases .text")) {
    box.replaceChildren(...pictures.nodes(box.textContent, sources));
  }
  for (const ask of document.querySelectorAll("#cases .ask")) ask.textContent = pictures.short(ask.textContent);
  const show = (filter) => {
    let count = 0;
    for (const item of cases) {
      const matches = filter === "all" || item.dataset.flags.split(" ").includes(filter);
      item.hidden = !matches;
      count += matches;
    }
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.filter === filter);
    shown.textContent = `${count} / ${cases.length}`;
  };
  const asked = () => {
    const name = location.hash.slice(1);
    return buttons.some((button) => button.dataset.filter === name) ? name : "all";
  };
  for (const button of buttons) button.addEventListener("click", () => {
    history.replaceState(null, "", `#${button.dataset.filter}`);
    show(button.dataset.filter);
  });
  window.addEventListener("hashchange", () => show(asked()));
  show(asked());
})();
