/* Reading server-rendered charts: pointer or arrow keys move a cursor through all charts of a group, the legends say
the values there.

The same numbers stand in each chart's table.  A live update draws the charts anew; the cursor stays at its time. */

let reading = null; // {group, time} of the cursor

const times = (group) => group.dataset.charts.split("|");
const last = (group) => times(group).length - 1;

function say(box, index, time) {
  const plot = box.querySelector(".chart-plot");
  if (!plot) return;
  const said = [];
  for (const item of box.querySelectorAll("[data-texts]")) {
    const text = item.dataset.texts.split("|")[index];
    if (item.textContent !== text) item.textContent = text;
    said.push(`${item.previousSibling.textContent.trim()} ${text}`);
  }
  box.querySelector(".chart-time").textContent = time;
  plot.setAttribute("aria-valuenow", index);
  plot.setAttribute("aria-valuetext", `${time}: ${said.join(", ")}`);
}

function place(group, index) {
  const all = times(group);
  const x = all.length === 1 ? 0 : (index / last(group)) * 1000;
  for (const box of group.querySelectorAll(".chart-box")) {
    say(box, index, all[index]);
    const cursor = box.querySelector(".chart-cursor");
    cursor?.setAttribute("x1", x);
    cursor?.setAttribute("x2", x);
  }
}

function read(group, index) {
  const at = Math.max(0, Math.min(last(group), index));
  reading = { group: group.closest("[id]").id, time: times(group)[at] };
  group.dataset.reading = "";
  place(group, at);
}

function leave() {
  const group = reading && groupOf(reading.group);
  reading = null;
  if (!group) return;
  delete group.dataset.reading;
  place(group, last(group));
}

function groupOf(id) {
  return document.getElementById(id)?.querySelector("[data-charts]");
}

function onPointer(event) {
  const plot = event.target.closest?.(".chart-plot");
  if (!plot) {
    if (reading && event.pointerType === "mouse" && !document.activeElement?.matches(".chart-plot")) leave();
    return;
  }
  const group = plot.closest("[data-charts]");
  const box = plot.getBoundingClientRect();
  read(group, Math.round(((event.clientX - box.left) / box.width) * last(group)));
}

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };

function onKey(event) {
  const plot = event.target.closest?.(".chart-plot");
  if (!plot || event.metaKey || event.ctrlKey || event.altKey) return;
  const group = plot.closest("[data-charts]");
  const at = Number(plot.getAttribute("aria-valuenow"));
  if (event.key in STEPS) read(group, at + STEPS[event.key]);
  else if (event.key === "Home") read(group, 0);
  else if (event.key === "End") read(group, last(group));
  else return;
  event.preventDefault();
}

function onDrawn() {
  const group = reading && groupOf(reading.group);
  if (!group) return;
  const at = times(group).lastIndexOf(reading.time);
  if (at < 0) { leave(); return; }
  group.dataset.reading = "";
  place(group, at);
}

export function setUpCharts() {
  document.addEventListener("pointermove", onPointer);
  document.addEventListener("pointerdown", onPointer);
  document.addEventListener("keydown", onKey);
  document.addEventListener("focusout", (event) => { if (event.target.matches(".chart-plot")) leave(); });
  document.addEventListener("htmx:afterSettle", onDrawn);
}
