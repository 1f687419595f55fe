/* Menus: <details class="menu"> with a .menu-panel, which opens above everything: a table that scrolls does not cut it
off. */

const GAP = 6;
const MARGIN = 8;

export function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.open = false;
}

function place(menu, panel) {
  const from = menu.querySelector("summary").getBoundingClientRect();
  const size = panel.getBoundingClientRect();
  const below = from.bottom + GAP;
  const fits = below + size.height <= innerHeight - MARGIN;
  const top = fits ? below : Math.max(MARGIN, Math.min(from.top - GAP, innerHeight - MARGIN) - size.height);
  panel.style.top = `${top}px`;
  panel.style.left = `${Math.max(MARGIN, Math.min(from.right, innerWidth - MARGIN) - size.width)}px`;
}

function onToggle(event) {
  const menu = event.target;
  if (!menu.matches?.("details.menu")) return;
  const panel = menu.querySelector(".menu-panel");
  if (!panel?.showPopover) return; // an older browser shows it beside its button
  panel.popover = "manual";
  if (menu.open) {
    panel.showPopover();
    place(menu, panel);
  } else if (panel.matches(":popover-open")) panel.hidePopover();
}

function follow(event) {
  const menu = document.querySelector("details.menu[open]");
  const panel = menu?.querySelector(".menu-panel:popover-open");
  if (panel && !panel.contains(event.target)) place(menu, panel);
}

export function setUpMenus() {
  document.addEventListener("toggle", onToggle, true);
  addEventListener("resize", () => closeMenus());
  addEventListener("scroll", follow, { capture: true, passive: true });
}
