// The charts of a report. A run is told by its colour, its dashes and its name beside its line.
(() => {
  const { element, column, colour, floor, frame, nothing, unique } = Smoothcert;
  const short = d3.format(".3~r");
  const zero = () => Plot.ruleY([0], { strokeOpacity: 0.4 });
  const title = (line, lines) => (lines.filter((one) => one.run === line.run).length > 1 ? `${line.run} [${line.soundness}]` : line.run);
  const halo = { stroke: "var(--back)", strokeWidth: 5, strokeLinejoin: "round", fontWeight: 600 };

  // Where a falling curve first is at or below a height.
  const place = (xs, ys, level) => { const at = ys.findIndex((y) => y <= level); return xs[at < 0 ? xs.length - 1 : at]; };

  // A name on every curve, each at a height of its own, so that none covers another.
  function names(lines, curveOf, domain) {
    const curves = lines.map(curveOf), top = d3.max(curves, (one) => d3.max(one.y)) || 1;
    return lines.map((line, at) => {
      const level = Math.min((top * (lines.length - at)) / (lines.length + 1), 0.97 * d3.max(curves[at].y)), x = place(curves[at].x, curves[at].y, level);
      const right = (x - domain[0]) / (domain[1] - domain[0]) > 0.6;
      return Plot.text([{ x, y: level }], { x: "x", y: "y", text: () => title(line, lines), fill: colour(line), textAnchor: right ? "end" : "start", dx: right ? -7 : 7, ...halo });
    });
  }

  // Certified accuracy against the radius; kind is "radius" or "proxy", at is the radius of the cross-hair.
  // Where certificates echo, the thick line is without them and a thin one with them.
  function curves(lines, { kind, bands, at, width }) {
    const of = (line) => line.curves[kind], main = (line) => of(line).quiet || of(line);
    const domain = [0, d3.max(lines, (line) => d3.max(of(line).x)) || 1];
    const marks = lines.flatMap((line) => {
      const own = main(line), style = { curve: "step-before", x: own.x }, all = of(line);
      return [
        bands ? Plot.areaY({ length: own.x.length }, { ...style, y1: own.low, y2: own.high, fill: colour(line), fillOpacity: 0.13 }) : null,
        all.quiet && Plot.lineY({ length: all.x.length }, { ...style, x: all.x, y: all.y, stroke: colour(line), strokeWidth: 1, strokeDasharray: "1 3", ariaDescription: "with echoes" }),
        Plot.lineY({ length: own.x.length }, { ...style, y: own.y, stroke: colour(line), strokeWidth: 2.2, strokeDasharray: line.dash }),
        Plot.dot({ length: all.marked.x.length }, { ...all.marked, r: 3.5, stroke: colour(line), strokeWidth: 1.5, fill: "var(--back)" }),
      ];
    });
    const what = `${kind === "proxy" ? "proxy radius" : "radius"} (${lines[0].measure})`;
    const summary = lines.map((line) => `${title(line, lines)} falls from ${of(line).y[0].toFixed(1)} % at radius 0 to 0 % beyond ${floor(d3.max(of(line).x), line.digits)}`).join("; ");
    return frame(width, {
      name: `Certified accuracy against the ${what}`, summary,
      x: { label: what, domain, labelAnchor: "center", labelArrow: "none" },
      y: { label: "certified accuracy (%)", domain: [0, 100], grid: true, labelArrow: "none" },
      marks: [zero(), marks, at == null ? null : Plot.ruleX([Math.min(at, domain[1])], { stroke: "currentColor", strokeWidth: 1.5, ariaDescription: "cross-hair" }),
        at == null ? null : Plot.text([Math.min(at, domain[1])], { x: (x) => x, frameAnchor: "top", dy: -12, text: () => "⇔", fontSize: 15 }), names(lines, main, domain)],
    });
  }

  // The share of inputs whose bound on p_A is at most so much, on an axis of log(1 - p).
  function probabilities(lines, { width }) {
    const known = lines.filter((line) => line.ecdf.x.length);
    if (!known.length) return nothing("These runs do not say how often the label won.");
    const least = Math.max(1e-12, d3.min(known, (line) => d3.min(line.ecdf.x.filter((miss) => miss > 0))) || 0.1) / 1.5;
    const ticks = [1, 0.5, ...d3.range(1, 13).map((power) => 10 ** -power)].filter((miss) => miss >= least);
    const sure = (miss) => (miss >= 0.1 ? String(+(1 - miss).toFixed(2)) : `0.${"9".repeat(Math.round(-Math.log10(miss)))}`);
    const curve = (line) => ({ x: [1, ...line.ecdf.x.map((miss) => Math.max(miss, least)), least], y: [0, ...line.ecdf.y.map((share) => 100 * share), 100] });
    const label = (line, at) => {
      const { x, y } = curve(line), level = (100 * (at + 1)) / (known.length + 1), where = x[y.findIndex((one) => one >= level)], right = Math.log(where) / Math.log(least) > 0.5;
      return Plot.text([{ where, level }], { x: "where", y: "level", text: () => title(line, known), fill: colour(line), textAnchor: right ? "end" : "start", dx: right ? -7 : 7, ...halo });
    };
    const half = (line) => { const { x, y } = curve(line); return sure(x[y.findIndex((one) => one >= 50)]); };
    return frame(width, {
      name: "How sure the votes are: inputs whose bound on p_A is at most so much",
      summary: known.map((line) => `${title(line, known)}: half of the inputs at or below ${half(line)}`).join("; "),
      x: { type: "log", label: "lower bound of p_A, the label's probability", domain: [1, least], ticks, tickFormat: sure, labelAnchor: "center", labelArrow: "none" },
      y: { label: "inputs at or below (%)", domain: [0, 100], grid: true, labelArrow: "none" },
      marks: [zero(), known.map((line) => Plot.lineY({ length: curve(line).x.length }, { ...curve(line), curve: "step-after", stroke: colour(line), strokeWidth: 2.2, strokeDasharray: line.dash })), known.map(label)],
    });
  }

  // Histograms of one column, one above the other on common bins, with a rule at the median.
  function histograms(lines, { name, label, what, width }) {
    const rows = lines.flatMap((line) => column(line, name).filter((value) => value != null).map((value) => ({ value, line: title(line, lines) })));
    if (!rows.length) return nothing("Nothing is certified in these runs.");
    const [low, high] = d3.extent(rows, (row) => row.value);
    const size = Math.max(Math.abs(low), Math.abs(high));
    const step = high - low > 1e-6 * size ? d3.tickStep(low, high, 30) : size / 20 || 1;
    const alone = high - low > 1e-6 * size ? 0 : 8;  // bins beside a lone value, so that it is a bar and not the whole chart
    const domain = [(Math.floor(low / step) - alone) * step, (Math.floor(high / step) + 1 + alone) * step];
    const thresholds = d3.range(domain[0], domain[1] + step / 2, step);
    const colours = new Map(lines.map((line) => [title(line, lines), colour(line)])), own = d3.group(rows, (row) => row.line);
    const present = lines.map((line) => title(line, lines)).filter((one) => own.has(one));
    const medians = present.map((line) => ({ line, value: d3.median(own.get(line), (row) => row.value) }));
    return frame(width, {
      name: `${what} by ${label}`, summary: medians.map((one) => `median of ${one.line}: ${short(one.value)}`).join("; "),
      height: 70 + 68 * present.length, marginTop: 34,
      x: { label, domain, labelAnchor: "center", labelArrow: "none" }, y: { label: what, ticks: 2, nice: true, labelArrow: "none", labelAnchor: "top" }, fy: { domain: present, axis: null, padding: 0.3 },
      marks: [
        Plot.ruleY([0], { strokeOpacity: 0.4 }),
        Plot.rectY(rows, Plot.binX({ y2: "count" }, { x: "value", fy: "line", domain, thresholds, fill: (row) => colours.get(row.line), fillOpacity: 0.75, inset: 0.5 })),
        Plot.ruleX(medians, { x: "value", fy: "line", stroke: "currentColor", strokeWidth: 1.5, strokeDasharray: "3 3" }),
        Plot.text(medians, { fy: "line", frameAnchor: "top-left", dx: 4, dy: -10, text: (row) => `${row.line}: median ${short(row.value)}`, ...halo, fill: (row) => colours.get(row.line) }),
      ],
    });
  }

  // Under attack: the share of certificates that no attack broke, against the multiple of the radius.
  function room(rows, lines, { width }) {
    const shown = rows.map((row) => ({ ...row, line: lines.find((line) => line.run === row.run && line.soundness === row.label) || lines.find((line) => line.run === row.run) })).filter((row) => row.line);
    if (!shown.length) return nothing("The runs that were attacked are hidden.");
    const held = (row) => 100 * (1 - row.violated / row.tried), groups = d3.groups(shown, (row) => row.line);
    const domain = [0, Math.max(1.2, 1.25 * d3.max(shown, (row) => row.times))];
    const longest = d3.max(groups, ([line]) => 8 + 7.5 * title(line, lines).length);  // names stand right of the last point
    return frame(width, {
      marginRight: Math.max(20, longest - (width - 68) / 5),
      name: "Certificates that no attack broke, by the multiple of the certified radius",
      summary: shown.map((row) => `${title(row.line, lines)} at ${row.times}: ${row.violated} of ${row.tried} broken`).join("; "),
      x: { label: "multiple of the certified radius", domain, labelAnchor: "center", labelArrow: "none" },
      y: { label: "certificates not broken (%)", domain: [0, 100], grid: true, labelArrow: "none" },
      marks: [zero(), Plot.ruleX([1], { stroke: "currentColor", strokeOpacity: 0.5 }),
        groups.map(([line, own]) => [
          Plot.lineY(own, { x: "times", y: held, stroke: colour(line), strokeWidth: 2.2, strokeDasharray: line.dash }),
          Plot.dot(own, { x: "times", y: held, r: 4, fill: colour(line) }),
          Plot.text(own.slice(-1), { x: "times", y: held, text: () => title(line, lines), textAnchor: "start", dx: 8, fill: colour(line), ...halo }),
        ])],
    });
  }

  Object.assign(Smoothcert, { curves, probabilities, histograms, room, lineTitle: title, normsOf: (lines) => unique(lines.map((line) => line.norm)) });
})();
