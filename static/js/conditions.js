/* Fields that have a meaning only with certain values of another field are hidden with others. */

const MARKED = "[data-when-field]";

function shown(control) {
  const other = control.form?.elements[control.dataset.whenField];
  if (!other) return true;
  if (other.matches(MARKED) && !shown(other)) return false;
  return control.dataset.whenValues.split(" ").includes(other.value);
}

function update() {
  for (const control of document.querySelectorAll(MARKED)) control.closest(".field").hidden = !shown(control);
}

export function setUpConditions() {
  document.addEventListener("change", update);
  document.addEventListener("htmx:afterSettle", update);
  update();
}
