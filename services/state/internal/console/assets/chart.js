// Draws a subscription's pace from the table that the page holds for those who would rather read.
"use strict";

(() => {
  const css = getComputedStyle(document.documentElement);
  const colour = (name) => css.getPropertyValue(`--${name}`).trim();

  function points() {
    return [...document.querySelectorAll("#points tr[data-at]")].map((row) => ({
      at: Date.parse(row.dataset.at) / 1000,
      pace: Number(row.dataset.pace),
      gate: row.dataset.gate ? Date.parse(row.dataset.gate) / 1000 : null,
    }));
  }

  // shade marks the times in which the gate was closed.
  function shade(u) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.fillStyle = colour("wait-wash");
    for (const p of drawn) {
      if (!p.gate || p.gate <= p.at) continue;
      const from = u.valToPos(p.at, "x", true), to = u.valToPos(p.gate, "x", true);
      ctx.fillRect(from, top, Math.max(to - from, 2 * devicePixelRatio), height);
    }
    ctx.restore();
  }

  let plot = null, drawn = [], print = "";

  function draw() {
    const holder = document.getElementById("plot");
    if (!holder) return;
    const all = points();
    const now = JSON.stringify([all, holder.clientWidth]);
    if (now === print || all.length < 2 || holder.clientWidth === 0) return;
    print = now;
    drawn = all;
    plot?.destroy();
    // Times as the page writes them, in the viewer's zone; the day is said where it changes.
    const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
    const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
    const times = (u, splits) => splits.map((s, i) => {
      const at = new Date(s * 1000), before = i > 0 ? new Date(splits[i - 1] * 1000) : null;
      const text = clock.format(at).replace(/:00$/, "");
      return before && before.toDateString() === at.toDateString() ? text : `${text}\n${day.format(at)}`;
    });
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "12px system-ui, sans-serif" };
    plot = new uPlot({
      width: holder.clientWidth,
      height: 160,
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (u, low, high) => [0, Math.max(1, high * 1.15)] } },
      axes: [{ ...axis, space: 80, values: times, incrs: [1, 2, 5, 10, 15, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800] }, { ...axis, size: 44, space: 36 }],
      series: [{}, { stroke: colour("work"), width: 2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: true, size: 5, fill: colour("work") } }],
      hooks: { drawClear: [shade] },
    }, [all.map((p) => p.at), all.map((p) => p.pace)], holder);
  }

  document.addEventListener("calferry:shown", draw);
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    print = "";
    draw();
  });
  // The picture says nothing to a screen reader; the table does.
  document.getElementById("plot")?.setAttribute("aria-hidden", "true");
  draw();
})();
