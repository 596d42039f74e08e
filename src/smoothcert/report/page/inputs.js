// Input by input: one row per input, the runs as columns; to sort, to filter and to open.
(() => {
  const { element, column, colour, fixed, unique, choice, breakable, swatch, lineTitle } = Smoothcert;

  // Every input once, with what each line says of it.
  function rowsOf(lines) {
    const rows = new Map();
    for (const line of lines) {
      const columns = Object.fromEntries(Object.keys(line.columns).map((name) => [name, column(line, name)]));
      columns.index.forEach((index, at) => {
        const cell = Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[at]]));
        if (!rows.has(index)) rows.set(index, { index, truth: cell.truth, cells: new Map() });
        rows.get(index).cells.set(line, cell);
      });
    }
    return [...rows.values()];
  }

  const outcome = (cell) => (cell.label == null ? "abstained" : cell.truth == null ? "certified" : cell.label === cell.truth ? "right" : "wrong");
  const echoes = (cell) => cell.echo != null && cell.echo >= 0.5;  // is the label what its noise says of most inputs?
  const attacked = (cell) => (cell.broken != null ? (cell.broken <= 1 ? "broken" : "further") : cell.tried != null ? "held" : "untried");
  const ATTACKED = { broken: "broken inside", further: "broken further out", held: "held", untried: "not attacked" };
  const attackWords = (cell) => (cell.broken != null ? `broken at ${cell.broken} ×` : cell.tried != null ? `held to ${cell.tried} ×` : "not attacked");

  // ○: echoes; ✗: broken inside its radius. Signs, not colours alone, and words for those who do not see them.
  function signs(cell) {
    return [echoes(cell) && element("span", { class: "sign", role: "img", "aria-label": "echoes", title: `echoes: other inputs get this label under this noise in ${fixed(cell.echo, 3)} of the votes` }, "○"),
      attacked(cell) === "broken" && element("span", { class: "sign wrong", role: "img", "aria-label": "broken by an attack", title: `an attack broke it at ${cell.broken} × its radius` }, "✗")];
  }

  // Boxes that leave out inputs; an input stays if any of the lines that are shown is as asked. keep(row, lines) tells.
  function filters(rows, lines, { pictured = () => false, classOf = String, address, changed }) {
    const cells = rows.flatMap((row) => [...row.cells.values()]);
    const any = (test) => cells.some(test), some = (row, shown, test) => shown.some((line) => row.cells.has(line) && test(row.cells.get(line)));
    const note = (name, control) => () => { address.set(name, control.type === "checkbox" ? (control.checked ? "1" : "") : control.value); changed(); };
    const made = [];
    const add = (name, label, options, test) => {
      const [whole, select] = choice(label, [["", "all"], ...options], () => note(name, select)(), address.get(name));
      if (options.length > 1) made.push({ whole, keep: (row, shown) => select.value === "" || test(row, shown, select.value) });
    };
    const tick = (name, words, test) => {
      const box = element("input", { type: "checkbox", checked: address.get(name) === "1", onchange: () => note(name, box)() });
      made.push({ whole: element("label", {}, box, words), keep: (row, shown) => !box.checked || test(row, shown) });
    };
    add("outcome", "outcome ", unique(cells.map(outcome)).sort().map((one) => [one, one]), (row, shown, value) => some(row, shown, (cell) => outcome(cell) === value));
    const truths = unique(rows.map((row) => row.truth)).filter((one) => one != null).sort(d3.ascending);
    add("class", "true class ", truths.map((one) => [one, classOf(one)]), (row, shown, value) => String(row.truth) === value);
    if (any((cell) => cell.echo != null)) add("echo", "certificates ", [["yes", "that echo"], ["no", "that do not echo"]], (row, shown, value) => some(row, shown, (cell) => cell.echo != null && echoes(cell) === (value === "yes")));
    if (any((cell) => cell.tried != null)) add("attack", "attack ", Object.entries(ATTACKED).filter(([kind]) => any((cell) => attacked(cell) === kind)), (row, shown, value) => some(row, shown, (cell) => attacked(cell) === value));
    if (lines.length > 1) tick("differ", "runs answer differently", (row, shown) => unique(shown.filter((line) => row.cells.has(line)).map((line) => row.cells.get(line).label)).length > 1);
    if (rows.some(pictured)) tick("pictured", "only with pictures", pictured);
    const wanted = element("input", { "aria-label": "input", type: "number", min: 0, step: 1, placeholder: "any", value: address.get("number"), oninput: () => note("number", wanted)() });
    const whole = element("div", { class: "controls" }, made.map((one) => one.whole), element("label", {}, "input ", wanted));
    whole.keep = (row, shown) => (wanted.value === "" || row.index === Number(wanted.value)) && made.every((one) => one.keep(row, shown));
    return whole;
  }

  const radius = (line) => line.digits;
  const MEASURES = [
    ["radius", "radius", radius, "certified: of the largest plain ball in the region, rounded down"],
    ["proxy", "proxy radius", radius, "of the ball of the region's volume, rounded down"],
    ["boxed", "proxy radius in the input box", radius, "of the part that an input can lie in: an estimate, to compare volumes by"],
    ["lower", "p_A ≥", 5, "lower bound of the label's probability, rounded down"],
    ["sigma", "σ-factor", 4, "smallest scale of the noise"],
    ["gap", "gap", radius, "radius in units of the noise"],
    ["echo", "echo", 3, "how often other inputs get this label under this noise; ○: half of the time or more"],
    ["broken", "nearest violation, × radius", 2, "where an attack found another answer, in multiples of the radius"],
    ["votes", "votes", 0, "noisy copies classified"],
    ["seconds", "seconds", null, "for the votes and for choosing the noise"],
  ];

  // The table: stopOf(line) is the radius of the cross-hair in the line's norm.
  function inputs(lines, pictures, { address, classOf, stopOf, size = 25 }) {
    const rows = rowsOf(lines);
    const cells = rows.flatMap((row) => [...row.cells.values()]);
    const measures = MEASURES.filter(([name]) => cells.some((cell) => cell[name] != null));
    let shown = lines, first = 25 * (Number(address.get("page")) || 0), key = address.get("sort").replace("-", "") || "index", falling = address.get("sort").startsWith("-"), open = null;
    const image = (source, words) => element("img", { src: source, alt: words });
    const map = (line, index) => pictures.scales[(pictures.maps[line.run] || {})[index]];
    const anyPicture = Object.keys(pictures.inputs).length > 0, anyMap = lines.some((line) => Object.keys(pictures.maps[line.run] || {}).length > 0);
    const [measureLabel, measure] = choice("show ", measures.map(([name, head]) => [name, head]), () => { address.set("show", measure.value === "radius" ? "" : measure.value); show(); }, address.get("show"));
    const said = (line, cell, name = measure.value) => {
      const [, , digits] = MEASURES.find(([one]) => one === name);
      if (name === "broken") return attackWords(cell);
      return digits == null ? String(cell[name]) : fixed(cell[name], typeof digits === "function" ? digits(line) : digits);
    };
    const body = element("tbody"), head = element("tr"), words = element("span", { class: "faint", role: "status" });
    const back = element("button", { type: "button", onclick: () => turn(-size) }, "‹ previous");
    const next = element("button", { type: "button", onclick: () => turn(size) }, "next ›");
    const turn = (by) => { first += by; address.set("page", String(first / size || "")); show(); };
    const sort = (name) => { falling = key === name && !falling; key = name; first = 0; address.set("page", ""); address.set("sort", key === "index" && !falling ? "" : (falling ? "-" : "") + key); show(); };
    const keyOf = (line) => `run-${line.position}`;
    const by = (row) => {
      if (key === "index" || key === "truth") return row[key];
      const line = lines.find((one) => keyOf(one) === key);
      return line && row.cells.get(line) ? row.cells.get(line)[measure.value] : null;
    };
    const header = (name, content, label) => element("th", { scope: "col", "aria-sort": key === name ? (falling ? "descending" : "ascending") : "none" },
      element("button", { type: "button", "data-column": name, "aria-label": label, onclick: () => sort(name) }, content, key === name ? (falling ? " ▼" : " ▲") : ""));

    function cellOf(row, line) {
      const cell = row.cells.get(line), title = lineTitle(line, lines);
      if (!cell) return element("td", { "data-head": title, class: "run" }, element("span", { class: "faint" }, "–"));
      const kind = outcome(cell), reaches = kind !== "wrong" && cell.label != null && cell.radius >= stopOf(line);
      const drawn = map(line, row.index);
      return element("td", { "data-head": title, class: `run ${reaches ? "reaches" : "short"}` },
        drawn && element("span", { class: "map", title: `scale of the noise per pixel: ${drawn.low} (dark) to ${drawn.high}` }, image(drawn.picture, `scale of the noise of input ${row.index}`)),
        element("span", { class: "value" }, said(line, cell), signs(cell),
          kind === "right" || kind === "certified" ? (kind === "certified" && element("small", {}, ` ${classOf(cell.label)}`)) : element("small", { class: kind }, kind === "wrong" ? ` says ${classOf(cell.label)}` : " abstains")));
    }

    function detail(row) {
      const own = shown.filter((line) => row.cells.has(line));
      const line = (name, of) => element("tr", {}, element("th", { scope: "row" }, name), own.map((one) => element("td", { "data-head": lineTitle(one, lines) }, of(one, row.cells.get(one)))));
      return element("tr", { class: "detail" }, element("td", { colspan: 3 + shown.length },
        element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, `input ${row.index}`), own.map((one) => element("th", { scope: "col" }, breakable(lineTitle(one, lines)))))),
          element("tbody", {}, line("answer", (_, cell) => (cell.label == null ? "abstains" : classOf(cell.label))), measures.map(([name, text]) => line(text, (one, cell) => said(one, cell, name))),
            own.some((one) => map(one, row.index)) && line("noise per pixel", (one) => (map(one, row.index) ? `${map(one, row.index).low} to ${map(one, row.index).high}` : "the same"))))));
    }

    function show() {
      const kept = rows.filter((row) => shown.some((line) => row.cells.has(line)) && boxes.keep(row, shown));
      const order = falling ? d3.descending : d3.ascending;  // what is missing comes last, either way
      const sorted = d3.sort(kept, (a, b) => (by(a) == null) - (by(b) == null) || order(by(a), by(b)));
      head.replaceChildren(header("index", "input"), ...(anyPicture ? [element("th", { scope: "col" }, element("span", { class: "head" }, "picture"))] : []), header("truth", "truth"),
        ...shown.map((line) => header(keyOf(line), [swatch(line), ...breakable(lineTitle(line, lines))], `sort by ${lineTitle(line, lines)}`)));
      first = Math.max(0, Math.min(first, Math.floor((kept.length - 1) / size) * size));
      body.replaceChildren(...sorted.slice(first, first + size).flatMap((row) => {
        const reached = shown.some((line) => { const cell = row.cells.get(line); return cell && cell.label != null && outcome(cell) !== "wrong" && cell.radius >= stopOf(line); });
        const button = element("button", { type: "button", "aria-expanded": String(open === row.index), title: "all numbers of this input", onclick: () => { open = open === row.index ? null : row.index; show(); } }, String(row.index));
        const made = element("tr", { "data-index": row.index }, element("th", { scope: "row" }, button),
          anyPicture && element("td", { class: "picture", "data-head": "picture" }, pictures.inputs[row.index] ? element("span", { class: reached ? "thumb" : "thumb short" }, image(pictures.inputs[row.index], `input ${row.index}`)) : ""),
          element("td", { "data-head": "truth" }, row.truth == null ? "–" : classOf(row.truth)), shown.map((line) => cellOf(row, line)));
        return open === row.index ? [made, detail(row)] : [made];
      }));
      words.textContent = kept.length ? `${first + 1}–${Math.min(first + size, kept.length)} of ${kept.length} inputs` : "no input matches";
      back.disabled = first === 0;
      next.disabled = first + size >= kept.length;
    }
    const boxes = filters(rows, lines, { classOf, address, pictured: (row) => Boolean(pictures.inputs[row.index]) || lines.some((line) => map(line, row.index)), changed: () => { first = 0; address.set("page", ""); show(); } });
    const whole = element("div", { id: "inputs" },
      element("p", { class: "faint" }, pictures.rule, anyMap && " The small map in a cell is the scale of its noise per pixel, dark to bright.",
        " Faint: not certified at the cross-hair's radius. ○ echoes, ✗ broken by an attack inside its radius. Open an input for all of its numbers."),
      element("div", { class: "controls" }, measureLabel), boxes,
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "inputs" }, element("table", { class: "inputs" }, element("thead", {}, head), body)),
      element("div", { class: "controls" }, back, next, words));
    whole.show = (now) => { shown = now; show(); };
    show();
    return whole;
  }

  Object.assign(Smoothcert, { rowsOf, outcome, echoes, attacked, attackWords, signs, filters, inputs });
})();
