/* Reading a server-rendered chart: pointer or arrow keys move a cursor, the line under it says the values.

The same numbers stand in the chart's table twin, so this is a convenience, not the only way to them. */

function points(plot) {
  return (plot.dataset.points || "").split("|").filter(Boolean);
}

function show(plot, index) {
  const all = points(plot);
  if (!all.length) return;
  const at = Math.max(0, Math.min(all.length - 1, index));
  const cursor = plot.querySelector(".chart-cursor");
  const x = all.length === 1 ? 0 : (at / (all.length - 1)) * 1000;
  cursor.setAttribute("x1", x);
  cursor.setAttribute("x2", x);
  plot.dataset.at = at;
  plot.closest(".chart-box").querySelector(".chart-read").textContent = all[at];
}

export function setUpCharts() {
  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.(".chart-plot");
    if (!plot) return;
    const box = plot.getBoundingClientRect();
    show(plot, Math.round(((event.clientX - box.left) / box.width) * (points(plot).length - 1)));
  });
}
