/* Everything the pages do in the browser beyond htmx.  One delegated listener per event; no state outside the DOM. */
import { closeMenus, setUpMenus } from "./menus.js";
import { confirmFromTrigger, setUpDialogs } from "./dialogs.js";
import { setUpLive } from "./live.js";
import { setUpCharts } from "./charts.js";
import { setUpLineage } from "./lineage.js";
import { setUpConditions } from "./conditions.js";
import { setUpPolicies } from "./policies.js";
import { announce } from "./toasts.js";

const THEMES = ["system", "light", "dark"];

/* The server shows times in it from the next answer on. */
function tellZone() {
  const zone = encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");
  const year = 60 * 60 * 24 * 365;
  if (!document.cookie.split("; ").includes(`zone=${zone}`)) {
    document.cookie = `zone=${zone}; path=/; max-age=${year}; samesite=lax`;
  }
}

function setTheme(theme) {
  const year = 60 * 60 * 24 * 365;
  document.cookie = `theme=${theme}; path=/; max-age=${year}; samesite=lax`;
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme));
  }
}

async function copyText(button) {
  const text = button.closest(".copy").querySelector("pre").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const label = button.querySelector("span");
  const was = label.textContent;
  label.textContent = "Copied";
  announce("Copied to the clipboard");
  setTimeout(() => { label.textContent = was; }, 1800);
}

document.addEventListener("click", (event) => {
  const target = event.target;
  closeMenus(target.closest("details.menu"));
  const theme = target.closest("[data-theme-choice]");
  if (theme && THEMES.includes(theme.dataset.themeChoice)) setTheme(theme.dataset.themeChoice);
  const copy = target.closest("[data-copy]");
  if (copy) copyText(copy);
  const dismiss = target.closest("[data-dismiss]");
  if (dismiss) dismiss.closest(".toast").remove();
  confirmFromTrigger(event);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const menu = document.querySelector("details.menu[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
    return;
  }
  if (event.key !== "/" || event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable], dialog[open]")) return;
  const search = document.querySelector("[data-shortcut='/']");
  if (search) { event.preventDefault(); search.focus(); search.select(); }
});

document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
tellZone();
setUpDialogs();
setUpMenus();
setUpLive();
setUpCharts();
setUpLineage();
setUpConditions();
setUpPolicies();
