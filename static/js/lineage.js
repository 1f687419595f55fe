/* Lineage by keyboard: arrow keys, Home and End go from line to line; Enter opens the one that has the focus. */

function lines() {
  return [...document.querySelectorAll("[data-lineage]")].filter((line) => line.checkVisibility());
}

function next(key, at, last) {
  if (key === "ArrowDown") return Math.min(at + 1, last);
  if (key === "ArrowUp") return Math.max(at - 1, 0);
  if (key === "Home") return 0;
  return key === "End" ? last : -1;
}

export function setUpLineage() {
  document.addEventListener("keydown", (event) => {
    const line = event.target.closest?.("[data-lineage]");
    if (!line || event.metaKey || event.ctrlKey || event.altKey) return;
    const all = lines();
    const to = next(event.key, all.indexOf(line), all.length - 1);
    if (to < 0) return;
    event.preventDefault();
    all[to].focus();
  });
}
