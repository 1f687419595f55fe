/* DDL policy: a preset fills the choices of each kind; changing one of them makes the policy custom. */

function fill(radio) {
  for (const select of radio.form.querySelectorAll("select[data-ddl]")) {
    const action = radio.getAttribute(`data-${select.dataset.ddl}`);
    if (action) select.value = action;
  }
  if (radio.value === "custom") radio.closest("fieldset").querySelector("details").open = true;
}

export function setUpPolicies() {
  document.addEventListener("change", (event) => {
    const target = event.target;
    if (target.matches("input[name='ddl_preset']")) fill(target);
    if (target.matches("select[data-ddl]")) {
      target.form.querySelector("input[name='ddl_preset'][value='custom']").checked = true;
    }
  });
}
