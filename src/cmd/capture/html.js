"use strict";
(() => {
  const svg = document.getElementById("timeline"), shown = document.getElementById("shown");
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const from = Date.parse(svg.dataset.from), seconds = Number(svg.dataset.seconds);
  let left = 0, span = width;
  const time = (x) => new Date(from + x / width * seconds * 1000).toISOString().slice(0, 19) + "Z";
  const steps = [.01, .05, .1, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const ticks = () => {
    const long = span / width * seconds, begin = from / 1000 + left / width * seconds;
    const most = Math.max(2, svg.clientWidth / 80);
    const step = steps.find((step) => long / step < most) || Math.ceil(long / most / 86400) * 86400;
    let text = "";
    for (let at = Math.ceil(begin / step); at * step <= begin + long; at++) {
      const share = (at * step - begin) / long * 100;
      const time = new Date(at * step * 1000).toISOString().slice(step < 86400 ? 11 : 5, step < 1 ? 22 : step < 60 ? 19 : step < 86400 ? 16 : 10);
      text += `<i style="left:${share}%"><span>${time}</span></i>`;
    }
    document.getElementById("ticks").innerHTML = text;
  };
  const show = () => {
    span = Math.min(width, Math.max(width / 5000, span));
    left = Math.min(width - span, Math.max(0, left));
    svg.setAttribute("viewBox", `${left} 0 ${span} ${height}`);
    ticks();
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
  addEventListener("resize", ticks);
  show();
})();
