(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const select = document.getElementById("point");
  const config = { responsive: true, displayModeBar: false };
  // The width of a chart on paper, in px; none on a screen, where charts follow the window.
  let paper = null;

  // Colours in the figures are names; the page's style sheet holds their values for each theme.
  const themed = (figure) => {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue("--" + name).trim();
    return JSON.parse(JSON.stringify(figure), (_, value) =>
      typeof value === "string" && value[0] === "$" ? color(value.slice(1)) : value);
  };

  // The chosen point's line is drawn last and full, the others stay faint.
  const bringOut = (figure) => {
    const chosen = (trace) => String(trace.meta) === select.value;
    for (const trace of figure.data.filter(chosen)) {
      trace.opacity = 1;
      trace.line.width = 3.5;
    }
    figure.data.sort((a, b) => chosen(a) - chosen(b));
  };

  // On a narrow page only labels with room between them stay.
  const thin = (axis) => {
    if (axis.type === "log" || !axis.tickvals) return;
    const apart = (axis.range[1] - axis.range[0]) / 9;
    let last = -Infinity;
    const keep = axis.tickvals.map((at) => at - last >= apart && ((last = at), true));
    axis.tickvals = axis.tickvals.filter((_, i) => keep[i]);
    axis.ticktext = axis.ticktext.filter((_, i) => keep[i]);
  };

  const draw = (plot) => {
    const { figure: id, each, spread } = plot.dataset;
    const figure = figures[id ?? each + select.value];
    plot.parentElement.hidden = !figure;
    if (!figure) return;
    const { data, layout } = themed(figure);
    if (spread !== undefined) bringOut({ data });
    if (paper) layout.width = paper;
    if (innerWidth < 600) {
      layout.margin = { ...layout.margin, l: 44, r: 8, t: layout.margin.t + 30 };
      layout.legend.x = -0.1;
      layout.legend.font.size = 11;
      layout.font.size = 11;
      thin(layout.xaxis);
    }
    Plotly.react(plot, data, layout, config);
  };

  const drawAll = () => plots.forEach(draw);
  const choose = () => {
    for (const facts of document.querySelectorAll(".of-point")) {
      facts.hidden = facts.dataset.point !== select.value;
    }
    plots.filter((plot) => plot.dataset.each || "spread" in plot.dataset).forEach(draw);
  };

  select?.addEventListener("change", choose);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => { paper = 660; drawAll(); });
  addEventListener("afterprint", () => { paper = null; drawAll(); });
  drawAll();
})();
