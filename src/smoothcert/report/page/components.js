// The parts of smoothcert's pages. Each takes data and returns an element; charts are drawn by Observable Plot.
// Certified numbers arrive rounded down to the digits they are shown with, so toFixed never rounds them up.
"use strict";
const Smoothcert = (() => {
  // An element with attributes, listeners (on...) and children.
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value != null) made.setAttribute(name, value);
    }
    made.append(...children.flat().filter((child) => child != null && child !== false));
    return made;
  }

  // A line's column as an array; the same value for all inputs is sent once.
  const column = (line, name) =>
    Array.isArray(line.columns[name]) ? line.columns[name] : new Array(line.inputs).fill(line.columns[name]);
  // Black is invisible on a dark page: the seventh line takes the colour of the text.
  const colour = (line) => (line.colour === "#000000" ? "currentColor" : line.colour);
  const fixed = (value, digits) => (value == null ? "–" : value.toFixed(digits));
  const unique = (values) => [...new Set(values)];

  // Light, dark, or what the system says; remembered while the page is open, changed by one button.
  function theme(button) {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const choices = ["auto", "light", "dark"];
    let chosen = "auto";
    const show = () => {
      const dark = chosen === "dark" || (chosen === "auto" && system.matches);
      document.documentElement.dataset.theme = dark ? "dark" : "light";
      button.textContent = `colours: ${chosen}`;
    };
    button.addEventListener("click", () => { chosen = choices[(choices.indexOf(chosen) + 1) % 3]; show(); });
    system.addEventListener("change", show);
    show();
  }

  // A chart that is drawn anew when its width changes; draw(width) returns an element.
  function chart(draw, caption) {
    const place = element("div");
    const figure = element("figure", {}, place, caption && element("figcaption", {}, caption));
    let width = 0;
    figure.redraw = () => width && place.replaceChildren(draw(width));
    new ResizeObserver(([entry]) => {
      const now = Math.floor(entry.contentRect.width);
      if (now && now !== width) { width = now; figure.redraw(); }
    }).observe(figure);
    return figure;
  }

  const frame = (width, options) => Plot.plot({
    width, height: Math.round(Math.max(230, Math.min(400, width * 0.66))), marginLeft: 48, marginBottom: 40,
    style: { background: "transparent", fontSize: "12px" }, ...options,
  });
  const zero = () => Plot.ruleY([0], { strokeOpacity: 0.4 });
  const nothing = (words) => element("p", { class: "empty" }, words);

  // Certified accuracy against the radius; kind is "radius" or "proxy".
  function curves(lines, { kind, bands, confidence, width }) {
    const points = lines.flatMap((line) => line.curves[kind].x.slice(0, -1).map((x, i) => ({
      x, line, y: line.curves[kind].y[i], low: line.curves[kind].low[i], high: line.curves[kind].high[i],
    })));
    const steps = (line, name) => line.curves[kind][name];
    const marks = lines.flatMap((line) => {
      const style = { curve: "step-before", x: steps(line, "x") };
      return [
        bands ? Plot.areaY({ length: steps(line, "x").length }, { ...style, y1: steps(line, "low"), y2: steps(line, "high"), fill: colour(line), fillOpacity: 0.16 }) : null,
        Plot.lineY({ length: steps(line, "x").length }, { ...style, y: steps(line, "y"), stroke: colour(line), strokeWidth: 2, strokeDasharray: line.dash }),
        Plot.dot({ length: steps(line, "marked").x.length }, { ...steps(line, "marked"), r: 3.5, stroke: colour(line), strokeWidth: 1.5, fill: "var(--back)" }),
      ];
    });
    const title = (d) => `${d.line.title}\n${kind === "proxy" ? "proxy radius" : "radius"} ${floor(d.x, d.line.digits)}\n` +
      `certified accuracy ${fixed(d.y, 2)} %\n${Math.round(100 * confidence)} % band ${fixed(d.low, 2)} – ${fixed(d.high, 2)} %`;
    return frame(width, {
      x: { label: `${kind === "proxy" ? "proxy radius" : "radius"} (${lines[0].measure})`, domain: [0, d3.max(lines, (line) => d3.max(steps(line, "x"))) || 1], labelAnchor: "center", labelArrow: "none" },
      y: { label: "certified accuracy (%)", domain: [0, 100], grid: true, labelArrow: "none" },
      marks: [zero(), marks, Plot.tip(points, Plot.pointer({ x: "x", y: "y", title }))],
    });
  }

  // A number as text with so many decimals, never above it.
  function floor(value, digits) {
    const text = value.toFixed(digits);
    return Number(text) > value ? (Number(text) - 10 ** -digits).toFixed(digits) : text;
  }

  // The share of inputs whose bound on p_A is at most so much.
  function probabilities(lines, { width }) {
    const known = lines.filter((line) => line.ecdf.x.length);
    if (!known.length) return nothing("These runs do not say how often the label won.");
    const points = known.flatMap((line) => line.ecdf.x.map((x, i) => ({ x, line, y: 100 * line.ecdf.y[i] })));
    return frame(width, {
      x: { label: "lower bound of p_A, the label's probability", domain: [0, 1], labelAnchor: "center", labelArrow: "none" },
      y: { label: "inputs at or below (%)", domain: [0, 100], grid: true, labelArrow: "none" },
      marks: [
        zero(),
        known.map((line) => Plot.lineY({ length: line.ecdf.x.length + 2 }, {
          x: [0, ...line.ecdf.x, 1], y: [0, ...line.ecdf.y.map((share) => 100 * share), 100],
          curve: "step-after", stroke: colour(line), strokeWidth: 2, strokeDasharray: line.dash,
        })),
        Plot.tip(points, Plot.pointer({ x: "x", y: "y", title: (d) => `${d.line.title}\np_A ≥ ${floor(d.x, 4)} or less: ${d.y.toFixed(1)} % of the inputs` })),
      ],
    });
  }

  // A histogram of one column, an outline per line on common bins, a dotted rule at the median.
  function histogram(lines, { name, label, what, width }) {
    const own = new Map(lines.map((line) => [line, column(line, name).filter((value) => value != null)]));
    const every = [...own.values()].flat();
    if (!every.length) return nothing("Nothing is certified in these runs.");
    const [low, high] = d3.extent(every);
    const size = Math.max(Math.abs(low), Math.abs(high));
    const step = high - low > 1e-6 * size ? d3.tickStep(low, high, 30) : size / 20 || 1;  // alike to the eye: one bar
    const domain = [Math.floor(low / step) * step, (Math.floor(high / step) + 1) * step];
    const thresholds = d3.range(domain[0], domain[1] + step / 2, step);
    return frame(width, {
      x: { label, domain, labelAnchor: "center", labelArrow: "none" },
      y: { label: what, grid: true, nice: true, labelArrow: "none" },
      marks: [
        zero(),
        lines.filter((line) => own.get(line).length).flatMap((line) => [
          Plot.rectY(own.get(line), Plot.binX({ y2: "count" }, { x: Plot.identity, domain, thresholds, fill: colour(line), fillOpacity: 0.22,
            stroke: colour(line), strokeDasharray: line.dash, inset: 0, title: () => line.title })),
          Plot.ruleX([d3.median(own.get(line))], { stroke: colour(line), strokeWidth: 1.5, strokeDasharray: "2 3" }),
        ]),
      ],
    });
  }

  // What each line looks like, with a box to show or hide it; changed(shown) is called with the lines that are shown.
  function legend(lines, changed) {
    const shown = new Set(lines);
    const item = (line) => {
      const box = element("input", { type: "checkbox", checked: true, onchange: () => {
        box.checked ? shown.add(line) : shown.delete(line);
        changed(lines.filter((one) => shown.has(one)));
      } });
      const swatch = element("span");
      swatch.innerHTML = '<svg width="34" height="10" aria-hidden="true"><line x1="1" x2="33" y1="5" y2="5" stroke-width="3"/></svg>';
      swatch.querySelector("line").setAttribute("stroke", colour(line));
      swatch.querySelector("line").setAttribute("stroke-dasharray", line.dash);
      return element("li", {}, element("label", {}, box, swatch, line.title.replace(/ \[\w+\]$/, ""), element("span", { class: "badge" }, line.soundness)));
    };
    return element("ul", { class: "legend" }, lines.map(item));
  }

  // A run's name may break behind _ - and /, and a share with its band between the two, so that many runs stand side by side.
  const breakable = (text) => text.split(/(?<=[_/-])/).flatMap((part) => [part, element("wbr")]);
  const band = (text) => text.split(/ (?=\()/).flatMap((part) => [element("span", { class: "whole" }, part), " "]);
  const words = (text) => (text.includes(" (") ? band(text) : text);

  // A plain table as the command prints it.
  function table({ title, note, header, rows, ends }) {
    return element("div", { class: "scroll" }, element("table", {},
      element("caption", {}, title, note && element("div", {}, note)),
      element("thead", {}, element("tr", {}, header.map((text) => element("th", { scope: "col" }, breakable(text))))),
      element("tbody", {}, rows.map((row, number) => element("tr", { class: ends.includes(number) && "end" }, row.map((text) => element("td", {}, words(text)))))),
    ));
  }

  // Rows to sort by a click on a column and to turn over; columns: {name, head, value(row), cell(row)}.
  function sortable(columns, { size = 25, start }) {
    let rows = [], key = start, falling = false, first = 0;
    const body = element("tbody"), words = element("span", { class: "faint", role: "status" });
    const back = element("button", { type: "button", onclick: () => { first -= size; show(); } }, "‹ previous");
    const next = element("button", { type: "button", onclick: () => { first += size; show(); } }, "next ›");
    const heads = columns.map((one) => element("th", { scope: "col" }, one.value
      ? element("button", { type: "button", "data-column": one.name, title: one.help, onclick: () => { falling = key === one.name && !falling; key = one.name; first = 0; show(); } }, one.head)
      : element("span", { style: "padding: .25rem .6rem; display: inline-block" }, one.head)));
    function show() {
      const by = columns.find((one) => one.name === key).value;
      const order = falling ? d3.descending : d3.ascending;  // what is missing comes last, either way
      const sorted = d3.sort(rows, (a, b) => (by(a) == null) - (by(b) == null) || order(by(a), by(b)));
      columns.forEach((one, number) => {
        heads[number].setAttribute("aria-sort", one.name === key ? (falling ? "descending" : "ascending") : "none");
        if (one.value) heads[number].firstChild.textContent = one.head + (one.name === key ? (falling ? " ▼" : " ▲") : "");
      });
      first = Math.max(0, Math.min(first, Math.floor((rows.length - 1) / size) * size));
      body.replaceChildren(...sorted.slice(first, first + size).map((row) => element("tr", { "data-index": row.index }, columns.map((one) => one.cell(row)))));
      words.textContent = rows.length ? `${first + 1}–${Math.min(first + size, rows.length)} of ${rows.length} rows` : "no input matches";
      back.disabled = first === 0;
      next.disabled = first + size >= rows.length;
    }
    const whole = element("div", {},
      element("div", { class: "scroll" }, element("table", { class: "inputs" }, element("thead", {}, element("tr", {}, heads)), body)),
      element("div", { class: "controls" }, back, next), words);
    whole.show = (now) => { rows = now; first = 0; show(); };
    return whole;
  }

  function choice(label, options, changed) {
    const select = element("select", { "aria-label": label.trim(), onchange: changed }, options.map(([value, words]) => element("option", { value }, words)));
    return [element("label", {}, label, select), select];
  }

  const outcome = (row) => (row.label == null ? "abstained" : row.truth == null ? "certified" : row.label === row.truth ? "right" : "wrong");

  // One row per input and line.
  function rowsOf(lines) {
    return lines.flatMap((line) => {
      const columns = Object.fromEntries(Object.keys(line.columns).map((name) => [name, column(line, name)]));
      return columns.index.map((index, i) => ({ line, index, ...Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[i]])) }));
    });
  }

  // Is the label what its noise says of most inputs?
  const echoes = (row) => row.echo != null && row.echo >= 0.5;

  // Every input with its numbers and pictures, to sort and to filter.
  function inputs(lines, pictures, { clicked } = {}) {
    const rows = rowsOf(lines);
    const cell = (content, attributes) => element("td", attributes || {}, content);
    const image = (source, words) => element("img", { src: source, alt: words });
    const map = (row) => pictures.scales[(pictures.maps[row.line.run] || {})[row.index]];
    const mapCell = (row) => map(row) && element("span", { class: "map" }, image(map(row).picture, `scale of the noise of input ${row.index}`),
      element("small", {}, map(row).high, element("br"), map(row).low));
    const number = (name, head, digits, help) => ({ name, head, help, value: (row) => row[name], cell: (row) => cell(fixed(row[name], typeof digits === "function" ? digits(row) : digits)) });
    const anyEcho = rows.some((row) => row.echo != null), anyMap = rows.some(map), anyPicture = Object.keys(pictures.inputs).length > 0;
    const radius = (row) => row.line.digits;
    const columns = [
      { name: "index", head: "input", value: (row) => row.index, cell: (row) => cell(clicked ? element("button", { type: "button" }, String(row.index)) : String(row.index)) },
      anyPicture && { name: "picture", head: "picture", cell: (row) => cell(pictures.inputs[row.index] ? image(pictures.inputs[row.index], `input ${row.index}`) : "") },
      anyMap && { name: "map", head: "noise map", cell: (row) => cell(mapCell(row) || "") },
      lines.length > 1 && { name: "run", head: "run", value: (row) => row.line.title, cell: (row) => cell([...breakable(row.line.run), ` [${row.line.soundness}]`], { class: "run" }) },
      { name: "truth", head: "truth", value: (row) => row.truth, cell: (row) => cell(row.truth == null ? "–" : String(row.truth)) },
      { name: "label", head: "answer", value: (row) => row.label, cell: (row) => cell(row.label == null ? "abstains" : String(row.label), { class: outcome(row) }) },
      number("radius", "radius", radius, "certified: of the largest plain ball in the region, rounded down"),
      number("proxy", "proxy radius", radius, "of the ball of the region's volume, rounded down"),
      number("lower", "p_A ≥", 5, "lower bound of the label's probability, rounded down"),
      number("sigma", "σ-factor", 4, "smallest scale of the noise"),
      number("gap", "gap", radius, "radius in units of the noise"),
      anyEcho && { name: "echo", head: "echo", help: "how often other inputs get this label under this noise; ○: half of the time or more", value: (row) => row.echo, cell: (row) => cell(fixed(row.echo, 3) + (echoes(row) ? " ○" : ""), { class: echoes(row) && "echo" }) },
      number("votes", "votes", 0),
      { name: "seconds", head: "seconds", value: (row) => row.seconds, cell: (row) => cell(String(row.seconds)) },
    ].filter(Boolean);
    const grid = sortable(columns, { start: "index" });
    if (clicked) grid.addEventListener("click", (event) => { const row = event.target.closest("tbody tr"); if (row) clicked(Number(row.dataset.index)); });
    const filter = () => grid.show(rows.filter((row) =>
      (run.value === "" || row.line === lines[Number(run.value)]) &&
      (kind.value === "" || outcome(row) === kind.value) &&
      (truth.value === "" || String(row.truth) === truth.value) &&
      (echo.value === "" || (row.echo != null && echoes(row) === (echo.value === "yes"))) &&
      (wanted.value === "" || row.index === Number(wanted.value)) &&
      (!pictured.checked || pictures.inputs[row.index] || map(row))));
    const [runLabel, run] = choice("run ", [["", "all"], ...lines.map((line, i) => [i, line.title])], filter);
    const [kindLabel, kind] = choice("outcome ", [["", "all"], ...unique(rows.map(outcome)).sort().map((one) => [one, one])], filter);
    const truths = unique(rows.map((row) => row.truth)).filter((one) => one != null).sort(d3.ascending);
    const [truthLabel, truth] = choice("true class ", [["", "all"], ...truths.map((one) => [one, one])], filter);
    const [echoLabel, echo] = choice("certificates ", [["", "all"], ["yes", "that echo"], ["no", "that do not echo"]], filter);
    const wanted = element("input", { "aria-label": "input", type: "number", min: 0, step: 1, placeholder: "any", oninput: filter });
    const pictured = element("input", { type: "checkbox", onchange: filter });
    filter();
    return element("div", { id: "inputs" },
      element("p", { class: "faint" }, pictures.rule, anyMap && " A noise map shows the scale per pixel, the mean of the channels", anyMap && (Object.values(pictures.scales).some((one) => one.low) ? "; beside it its largest and its least value." : ".")),
      element("div", { class: "controls" }, lines.length > 1 && runLabel, kindLabel, truths.length > 0 && truthLabel, anyEcho && echoLabel, element("label", {}, "input ", wanted),
        (anyPicture || anyMap) && element("label", {}, pictured, "only with pictures")),
      grid);
  }

  function warnings(found) {
    return found.length > 0 && element("div", { class: "warnings", role: "note" }, element("strong", {}, "Before you compare"), element("ul", {}, found.map((one) => element("li", {}, one))));
  }

  // The exact command, the configuration and the versions of one run.
  function configuration(run, open) {
    const facts = { directory: run.directory, inputs: `${run.inputs} of ${run.subset || run.inputs}`, ...(run.shape && { shape: run.shape.join(" × ") }), ...(run.classes && { classes: String(run.classes) }), ...run.configuration };
    return element("details", { open }, element("summary", {}, run.name),
      run.command && [element("h3", {}, "Command"), element("code", { class: "block command" }, run.command)],
      element("h3", {}, "Configuration"),
      element("dl", {}, Object.entries(facts).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
      run.settings && [element("h3", {}, "run.toml"), element("pre", {}, run.settings)]);
  }

  const section = (id, title, ...parts) => element("section", { id }, element("h2", {}, title), ...parts);
  const norms = (lines) => unique(lines.map((line) => line.norm));

  function report(data, place) {
    theme(document.getElementById("theme"));
    addEventListener("beforeprint", () => place.querySelectorAll("details").forEach((one) => { one.open = true; }));
    const { lines } = data;
    const runs = section("runs", "How it was made", data.runs.map((run) => configuration(run, data.runs.length === 1)));
    if (!lines.length) {
      place.append(...[warnings(data.warnings), nothing("There are no certificates yet in these runs. Certify some inputs into them, then make the report again."), runs].filter(Boolean));
      return;
    }
    let shown = lines, kind = "radius", bands = true;
    const drawn = [];
    const add = (draw, caption) => { const one = chart((width) => (shown.length ? draw(shown, width) : nothing("All runs are hidden.")), caption); drawn.push(one); return one; };
    const redraw = () => drawn.forEach((one) => one.redraw());
    const proxies = lines.some((line) => Array.isArray(line.columns.proxy) && column(line, "radius").some((radius, i) => radius !== column(line, "proxy")[i]));
    const [kindLabel, kindSelect] = choice("against ", [["radius", "radius"], ["proxy", "proxy radius (same volume)"]], () => { kind = kindSelect.value; redraw(); });
    const bandBox = element("input", { type: "checkbox", checked: true, onchange: () => { bands = bandBox.checked; redraw(); } });
    const curve = (norm) => add((now, width) => {
      const own = now.filter((line) => line.norm === norm);
      return own.length ? curves(own, { kind, bands, confidence: data.confidence, width }) : nothing("All runs of this norm are hidden.");
    }, norms(lines).length > 1 ? norm : null);
    const marked = lines.some((line) => line.curves.radius.marked.x.length > 0);
    const whole = lines.every((line) => line.labelled) ? "The share of inputs answered correctly and certified at a radius or beyond."
      : "The share of inputs answered and certified at a radius or beyond; where the truth is known, answered correctly.";
    place.append(...[
      warnings(data.warnings),
      element("div", { class: "sticky" }, legend(lines, (now) => { shown = now; redraw(); })),
      section("curves", "Certified accuracy",
        element("p", {}, whole, ` The band holds the true share with ${Math.round(100 * data.confidence)} % confidence at each radius, as far as these inputs are a fair sample.`,
          marked && " Hollow points: certificates that echo. Other inputs get the same label under the same noise at least half of the time, so they are true and say nothing of their input."),
        element("div", { class: "controls" }, proxies && kindLabel, element("label", {}, bandBox, "confidence bands")),
        element("div", { class: "charts" }, norms(lines).map(curve))),
      section("tables", "Tables", data.tables.map(table)),
      section("behind", "Behind the radii", element("div", { class: "charts" },
        add((now, width) => probabilities(now, { width }), "How sure the votes are: the bound on p_A over all inputs, abstentions too."),
        add((now, width) => histogram(now, { name: "votes", label: "votes per input", what: "inputs", width }), "Noisy copies classified per input; dotted: the median."),
        add((now, width) => histogram(now, { name: "sigma", label: "σ-factor (input units)", what: "certified inputs", width }), "The smallest scale of the noise, per certified input; dotted: the median."),
        add((now, width) => histogram(now, { name: "gap", label: "gap (units of the noise)", what: "certified inputs", width }), "The radius in units of the noise; radius = σ-factor × gap."))),
      section("each", "Input by input", inputs(lines, data.pictures)),
      data.classes.length > 0 && section("classes", "Class by class", data.classes.map((one) => element("details", {}, element("summary", {}, one.title), table({ ...one, title: "" })))),
      runs,
      section("labels", "What the labels mean", element("dl", {}, Object.entries(data.labels).flatMap(([label, words]) => [element("dt", {}, label), element("dd", {}, words)])),
        element("p", { class: "faint" }, "Alpha is per certificate: among 10 000 at 0.001 expect up to 10 wrong ones. Certified numbers are rounded down. ",
          "Cite what you used: ", element("code", {}, "smoothcert cite RUN"), ".")),
      element("footer", { class: "faint" }, `Made by smoothcert ${data.version}. Charts: Observable Plot and D3, ISC licence.`),
    ].filter(Boolean));
  }

  return { element, fixed, section, choice, frame, nothing, theme, chart, curves, probabilities, histogram, legend, table, sortable, inputs, warnings, configuration, report };
})();
