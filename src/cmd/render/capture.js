"use strict";
(() => {
  const svg = document.getElementById("timeline"), shown = document.getElementById("shown");
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const from = Date.parse(svg.dataset.from), seconds = Number(svg.dataset.seconds);
  let left = 0, span = width;
  const time = (x) => new Date(from + x / width * seconds * 1000).toISOString().slice(0, 19) + "Z";
  const show = () => {
    span = Math.min(width, Math.max(width / 5000, span));
    left = Math.min(width - span, Math.max(0, left));
    svg.setAttribute("viewBox", `${left} 0 ${span} ${height}`);
    shown.textContent = `${time(left)} to ${time(left + span)}`;
  };
  const moves = {
    in: () => { left += span / 4; span /= 2; }, out: () => { left -= span / 2; span *= 2; },
    left: () => { left -= span / 4; }, right: () => { left += span / 4; }, all: () => { left = 0; span = width; },
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all" };
  const move = (name) => { moves[name](); show(); };
  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => move(button.dataset.zoom)));
  svg.addEventListener("keydown", (event) => {
    const name = keys[event.key];
    if (name && !event.ctrlKey && !event.metaKey) { event.preventDefault(); move(name); }
  });
  show();
})();
