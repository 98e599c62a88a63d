/* Puts the page together. */
const data = JSON.parse(document.getElementById("data").textContent);
function drawTheme() {
  const button = document.getElementById("theme");
  if (!button) return;
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const tell = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`); };
  button.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; tell(); });
  button.hidden = false;
  tell();
}
function drawCharts() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    const section = place.closest("section");
    section.hidden = false;
    const drawn = charts[place.dataset.chart](place);
    section.hidden = !drawn;
    const link = document.querySelector(`nav a[href="#${section.id}"]`);
    if (link) link.hidden = !drawn;
  }
}
function start() {
  drawTheme();
  const plain = document.getElementById("plain");
  if (plain) plain.remove();
  if (data.views) {
    const redraw = () => { drawBoard(); drawCharts(); };
    if (data.views.length) { drawControls(redraw); redraw(); }
    document.querySelectorAll("nav a").forEach((link) => { const part = document.querySelector(link.hash); if (!part || part.hidden) link.hidden = true; });
    let width = innerWidth, timer = 0;
    addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => { if (innerWidth !== width) { width = innerWidth; redraw(); } }, 150); });
    addEventListener("beforeprint", () => document.querySelectorAll("details.row").forEach((each) => { each.open = true; }));
    addEventListener("hashchange", openTarget);
    openTarget();
  }
  if (data.inspection) drawInspection(document.getElementById("inspection"), data.inspection);
}
start();
