/* Messages that appear without a page load: a polite live region for everybody, a toast for the eyes. */

export function announce(text) {
  const region = document.getElementById("announcer");
  region.textContent = "";
  setTimeout(() => { region.textContent = text; }, 50);
}

export function toast(text, level = "info") {
  const template = document.getElementById("toast-template");
  const node = template.content.firstElementChild.cloneNode(true);
  node.classList.add(`toast-${level}`);
  node.querySelector("p").textContent = text;
  document.getElementById("toasts").append(node);
  if (level !== "error") setTimeout(() => node.remove(), 7000);
}
