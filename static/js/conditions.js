/* Fields that have a meaning only with certain values of other fields are hidden with others. */

const MARKED = "[data-when]";

function shown(control) {
  return Object.entries(JSON.parse(control.dataset.when)).every(([name, values]) => {
    const other = control.form?.elements[name];
    return !other || ((!other.matches(MARKED) || shown(other)) && values.includes(other.value));
  });
}

function update() {
  for (const control of document.querySelectorAll(MARKED)) control.closest(".field").hidden = !shown(control);
  for (const more of document.querySelectorAll("details:has([data-when])")) {
    more.hidden = ![...more.querySelectorAll(".field")].some((field) => !field.hidden);
  }
}

export function setUpConditions() {
  document.addEventListener("change", update);
  document.addEventListener("htmx:afterSettle", update);
  update();
}
