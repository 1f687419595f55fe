/* <dialog> opened by [data-dialog="id"]; a type-the-name confirmation enables its button by [data-confirm-text]. */

export function confirmFromTrigger(event) {
  const opener = event.target.closest("[data-dialog]");
  if (opener) {
    event.preventDefault();
    opener.closest("details.menu")?.removeAttribute("open");
    const dialog = document.getElementById(opener.dataset.dialog);
    if (dialog) open(dialog, opener);
    return;
  }
  const closer = event.target.closest("[data-close]");
  if (closer) closer.closest("dialog").close();
}

function open(dialog, opener) {
  for (const field of dialog.querySelectorAll("[data-fill]")) {
    const value = opener.dataset[field.dataset.fill];
    if (value === undefined) continue;
    if (field.matches("form")) field.action = value;
    else if (field.matches("input, select")) field.value = value;
    else field.textContent = value;
  }
  const next = dialog.querySelector("input[name=next]"); // with the filters of now
  if (next) next.value = location.pathname + location.search;
  const typed = dialog.querySelector("[data-confirm-text]");
  if (typed) {
    typed.value = "";
    typed.dataset.confirmText = opener.dataset.name ?? typed.dataset.confirmText;
  }
  checkTyped(dialog);
  dialog.showModal();
}

function checkTyped(dialog) {
  const field = dialog.querySelector("[data-confirm-text]");
  if (!field) return;
  dialog.querySelector("[data-confirm-button]").disabled = field.value.trim() !== field.dataset.confirmText;
}

export function setUpDialogs() {
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-confirm-text]")) checkTyped(event.target.closest("dialog"));
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches("dialog[open]")) event.target.close();
  });
}
