// The explorer: a list of the inputs beside one of them, and questions to the server behind this page.
function explore(data, place) {
  const { element, section, choice, chart, frame, nothing, sorry, fixed, outcome, signs, attackWords, rowsOf, filters, address: addressOf } = Smoothcert;
  const address = addressOf(), MOST = 300, page = Math.random().toString(36).slice(2);
  const classOf = (label) => (data.class_names[label] == null ? String(label) : `${label} ${data.class_names[label]}`);
  const image = (source, words, kind = "pixels") => element("img", { src: source, alt: words, class: kind });
  const busy = (words) => element("p", { class: "faint busy", role: "status" }, words);
  let tickets = 0;

  async function ask(where, question) {
    const options = question && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) };
    let reply;
    try { reply = await fetch(where, options); } catch { throw new Error("smoothcert explore no longer answers; start it again in the terminal"); }
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.error);
    return found;
  }

  // The shares of the classes that got votes, most first; the named class is the strong one, rules stand at the bounds.
  function votes(counts, invalid, label, bounds) {
    const total = d3.sum(counts) + invalid;
    const rows = counts.map((count, at) => ({ name: classOf(at), at, count })).concat(invalid ? [{ name: "nobody", at: null, count: invalid }] : []);
    const shown = d3.sort(rows, (row) => -row.count).filter((row, at) => row.count > 0 || at < 2).slice(0, 10);
    return chart((width) => frame(width, {
      name: "Votes by class", summary: shown.map((row) => `class ${row.name}: ${row.count} of ${total}`).join("; "),
      height: 60 + 24 * shown.length, marginTop: 24, marginLeft: 20 + 7 * d3.max(shown, (row) => row.name.length), marginRight: 60,
      x: { label: "share of the votes", domain: [0, 1], labelAnchor: "center", labelArrow: "none" },
      y: { label: null, domain: shown.map((row) => row.name) },
      marks: [
        Plot.barX(shown, { x: (row) => row.count / total, y: "name", fill: (row) => (row.at === label ? "var(--run-0)" : "#8a8f96"), title: (row) => `class ${row.name}: ${row.count} of ${total} votes` }),
        Plot.text(shown, { x: (row) => row.count / total, y: "name", text: (row) => String(row.count), textAnchor: "start", dx: 4 }),
        bounds.map((bound) => Plot.ruleX([bound.at], { stroke: bound.colour, strokeWidth: 2, strokeDasharray: "4 3", title: () => bound.words })),
      ],
    }));
  }

  // The bound and the radius as the votes came in.
  function arriving(one) {
    const looks = one.looks, end = looks[looks.length - 1];
    if (looks.length < 2) return element("p", { class: "faint" }, "This estimator looks at its votes once, when all are cast.");
    const say = `after ${looks[0].votes} votes p_A ≥ ${looks[0].lower.toFixed(3)}, after ${end.votes} p_A ≥ ${end.lower.toFixed(3)}`;
    const draw = (name, label, values, colour) => chart((width) => frame(width, {
      name, summary: say, height: 150, marginTop: 24, x: { label: "votes", nice: true, labelAnchor: "center", labelArrow: "none", ticks: 5 }, y: { label, domain: [0, d3.max(values, (row) => row.y) || 1], nice: true, grid: true, ticks: 4, labelArrow: "none" },
      marks: [Plot.ruleY([0], { strokeOpacity: 0.4 }), Plot.lineY(values, { x: "votes", y: "y", stroke: colour, strokeWidth: 2, curve: "step-after" }), Plot.dot(values, { x: "votes", y: "y", r: 3, fill: colour, title: (row) => `${row.votes} votes: ${row.y}` })],
    }));
    return [element("p", { class: "faint" }, `As the votes arrived: ${say}. They ended: ${one.stopped}.`),
      element("div", { class: "pair arriving" }, draw("The bound on p_A as votes arrived", "p_A ≥", looks.map((look) => ({ votes: look.votes, y: look.lower })), "var(--run-1)"),
        draw("The certified radius as votes arrived", "radius", looks.map((look) => ({ votes: look.votes, y: look.radius ?? 0 })), "var(--run-0)"))];
  }

  const range = (scale) => (scale[0] === scale[2] ? scale[0].toPrecision(4) : `from ${scale[0].toPrecision(4)} to ${scale[2].toPrecision(4)}`);

  function facts(one) {
    const certified = one.label != null;
    const why = `abstains: class ${classOf(one.leader)} had the most votes, but the bound says only that it wins with probability ${one.lower_words} or more, and a certificate needs more than 1/2 or a clear lead over every rival`;
    const rows = [
      ["answer", `${certified ? `class ${classOf(one.label)}` : why}${one.truth == null ? "" : `; truth ${classOf(one.truth)}`}`],
      certified && ["label", `${one.soundness}: ${one.meaning}`],
      certified && one.threat && ["certified against", one.threat.size ? `${one.threat.words}, wherever and with whatever values` : "nothing: the answer is known at this input alone"],
      certified && !one.threat && ["inner radius", `${one.front ? one.front.balls.join(", ") : `${one.radius} (${one.norm})`}: of the largest plain ball${one.front ? "s that are proved to lie" : ""} in the region`],
      certified && !one.threat && ["proxy radius", one.proxy === null ? "none: the region has no end where the front is blind" : `${one.proxy}: of the ball of the region's volume`],
      certified && !one.threat && one.boxed != null && ["in the input box", `${one.boxed}: the same of the part that an input can lie in`],
      one.views && ["views", `${one.law}; ${one.exact ? `all ${one.trials} are asked, so the certificate is exact` : `sampled, ${one.trials} of them`}`],
      one.front && ["noise", `${one.law}, scale ${range(one.front.scale)}, on ${one.front.numbers} numbers of the input: ${one.front.name}`],
      !one.views && !one.front && ["noise", `${one.law}, scale θ ${range(one.scale)}`],
      certified && ["theorem", one.rule || "–"],
      ["points", one.grid ? `on the grid of 1/${one.grid}` : "real numbers, in float32"],
    ].filter(Boolean);
    return element("dl", {}, rows.flatMap(([name, words]) => [element("dt", {}, name), element("dd", {}, words)]));
  }

  // Words in lines of at most so many letters, for the label of an axis.
  const broken = (words, most) => words.split(" ").reduce((lines, word) => {
    const longer = `${lines.at(-1)} ${word}`;
    return lines.length && longer.length <= most ? [...lines.slice(0, -1), longer] : [...lines, word];
  }, []);

  // What tells classes apart without colour: a line where two meet, and each one's name, above the input's row where there is room.
  function borders(cells, cell, extent, classes) {
    const half = cell / 2, near = (one, other) => Math.abs(one - other) < half;
    const edges = (ordered, across) => d3.pairs(ordered).filter(([one, next]) => one.one !== next.one && near(one[across], next[across])).map(([one]) => one);
    const upright = edges(d3.sort(cells, (d) => d.b, (d) => d.a), "b").map((d) => [d.a + half, d.b - half, d.a + half, d.b + half]);
    const flat = edges(d3.sort(cells, (d) => d.a, (d) => d.b), "a").map((d) => [d.a - half, d.b + half, d.a + half, d.b + half]);
    const names = classes.map((each) => {
      const own = cells.filter((d) => d.one === each), high = own.filter((d) => d.b > extent / 2), of = high.length ? high : own;
      const [a, b] = ["a", "b"].map((name) => d3.mean(of, (d) => d[name]));
      return d3.least(of, (d) => Math.hypot(d.a - a, d.b - b));
    });
    return [
      Plot.link([...upright, ...flat], { x1: "0", y1: "1", x2: "2", y2: "3", stroke: "currentColor", strokeWidth: 1, ariaDescription: "borders" }),
      Plot.text(names, { x: "a", y: "b", text: (d) => String(classOf(d.one)), fontWeight: 600, stroke: "var(--back)", strokeWidth: 4, fill: "currentColor", ariaDescription: "names" }),
    ];
  }

  // A plane through the input: the classes on it, the regions, the box, the deployed classifier, the current point; pick(a, b) on a click.
  function drawSlice(found, one, at, pick, width) {
    const { size, extent } = found, label = one.label ?? one.leader;
    const known = found.label.filter((each) => each != null && each >= 0), order = d3.rollups(known, (all) => -all.length, (each) => each);
    const classes = d3.sort(order, ([each, count]) => (each === label ? -Infinity : count)).map(([each]) => each);
    const palette = ["#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#0072B2", ...d3.schemeTableau10];
    const colours = new Map(classes.map((each, k) => [each, palette[k % palette.length]]));
    const side = Math.min(width, 560), cell = (2 * extent) / (size - 1), edge = extent + cell / 2;
    // A cell that is not there yet is drawn as the nearest of the coarser ones.
    let stride = size - 1;
    const full = (step) => d3.range(0, size, step).every((row) => d3.range(0, size, step).every((column) => found.label[row * size + column] != null));
    while (stride > 1 && full(stride / 2)) stride /= 2;
    const cells = found.label.flatMap((own, k) => {
      const row = Math.floor(k / size), column = k % size, from = own != null ? k : Math.min(size - 1, Math.round(row / stride) * stride) * size + Math.min(size - 1, Math.round(column / stride) * stride);
      return found.label[from] == null ? [] : [{ one: found.label[from], share: found.share[from], a: -extent + cell * column, b: -extent + cell * row }];
    });
    const line = (name, style) => found.outlines[name] && Plot.line(found.outlines[name], { ...style, clip: true, ariaDescription: name });
    const share = found.votes ? `of ${found.votes} votes` : "probability", deployed = (found.deployed || []).map(([a, says]) => ({ a, says }));
    const [across, up] = found.words.map((words) => broken(words, Math.floor((side - 80) / 6.5)));
    const drawn = frame(side, {
      name: `Plane through the input: ${found.words.join("; ")}`, summary: `classes on it: ${classes.map(classOf).join(", ")}`,
      height: side, marginLeft: 40 + 12 * up.length, marginBottom: 32 + 12 * across.length, marginTop: 12, marginRight: 12,
      x: { domain: [-edge, edge], label: across.join("\n"), labelAnchor: "center", labelArrow: "none", ticks: 6 },
      y: { domain: [-edge, edge], label: up.join("\n"), labelAnchor: "center", labelArrow: "none", ticks: 6 },
      marks: [
        Plot.rect(cells, { x1: (d) => d.a - cell / 2, x2: (d) => d.a + cell / 2, y1: (d) => d.b - cell / 2, y2: (d) => d.b + cell / 2, shapeRendering: "crispEdges",
          fill: (d) => colours.get(d.one) || "#888888", fillOpacity: (d) => 0.15 + 0.7 * d.share, ariaDescription: "cells" }),
        ...borders(cells, cell, extent, classes),
        line("box", { stroke: "currentColor", strokeWidth: 1.5, strokeDasharray: "1 3" }),
        line("region", { stroke: "currentColor", strokeWidth: 2.5 }),
        line("inner", { stroke: "currentColor", strokeWidth: 1.5, strokeDasharray: "5 4" }),
        Plot.dot(deployed, { x: "a", y: 0, r: 6, fill: (d) => colours.get(d.says) || "#888888", stroke: "currentColor", strokeWidth: 1.5, symbol: "square", ariaDescription: "deployed" }),
        Plot.text(deployed, { x: "a", y: 0, dy: -13, text: (d) => (d.says == null ? "?" : String(d.says)), fontWeight: 600, stroke: "var(--back)", strokeWidth: 4, fill: "currentColor" }),
        Plot.dot([[0, 0]], { symbol: "plus", r: 4, stroke: "currentColor", strokeWidth: 1.5 }),
        at && Math.max(Math.abs(at[0]), Math.abs(at[1])) <= edge ? Plot.dot([at], { r: 6, fill: "#D55E00", stroke: "white", strokeWidth: 1.5, ariaDescription: "point" }) : null,
        Plot.tip(cells, Plot.pointer({ x: "a", y: "b", maxRadius: 30, title: (d) => (d.one < 0 ? "no class" : `class ${classOf(d.one)}: ${d.share.toFixed(2)} ${share}`) })),
      ],
    });
    drawn.style.cursor = "crosshair";
    drawn.addEventListener("click", (event) => {
      const box = drawn.getBoundingClientRect();
      pick(drawn.scale("x").invert(((event.clientX - box.left) * side) / box.width), drawn.scale("y").invert(((event.clientY - box.top) * side) / box.height));
    });
    const swatch = (each) => element("li", {}, element("span", { style: `display:inline-block;width:.9em;height:.9em;border-radius:2px;background:${colours.get(each)}` }), ` class ${classOf(each)}`);
    const flip = deployed.find((d) => d.says !== one.label);
    return element("div", {}, drawn, element("ul", { class: "legend faint" }, classes.slice(0, 10).map(swatch),
      found.outlines.region && [element("li", {}, "━ certified region"), element("li", {}, "┅ largest plain ball inside")], found.outlines.box && element("li", {}, "┈ pixels between 0 and 1"), element("li", {}, "+ the input"),
      deployed.length > 0 && element("li", {}, "□ the deployed classifier, its noise chosen anew")),
    deployed.length > 0 && element("p", { class: "faint", role: "status" }, flip ? `The deployed classifier says ${flip.says == null ? "nothing for sure" : `class ${classOf(flip.says)}`} from ${flip.a.toPrecision(3)} along the first axis.` : `The deployed classifier keeps its answer up to ${deployed[deployed.length - 1].a.toPrecision(3)} along the first axis.`));
  }

  // A canvas over the picture: paint up or down; drawing is one number per pixel, and a stroke has no gaps.
  function painter(one, changed) {
    const [height, width] = one.shape.slice(-2), drawing = new Float32Array(height * width);
    const canvas = element("canvas", { width, height, class: "pixels big", role: "img", "aria-label": "draw a perturbation" });
    const context = canvas.getContext("2d"), under = new Image();
    const [signLabel, sign] = choice("brush ", [[1, "brighter"], [-1, "darker"], [0, "erase"]], () => {});
    const channels = one.shape.length === 3 ? one.shape[0] : 1;
    const [channelLabel, channel] = choice("channel ", [["", "all"], ...d3.range(channels).map((k) => [k, k])], () => changed());
    const reach = Math.max(1, Math.round(Math.max(height, width) / 20));
    let last = null;
    function show() {
      context.clearRect(0, 0, width, height);
      if (one.picture) context.drawImage(under, 0, 0, width, height);
      drawing.forEach((value, at) => { if (value) { context.fillStyle = value > 0 ? "rgba(230,159,0,.75)" : "rgba(0,114,178,.75)"; context.fillRect(at % width, Math.floor(at / width), 1, 1); } });
    }
    function dab(row, column) {
      for (let y = Math.max(0, row - reach + 1); y < Math.min(height, row + reach); y++)
        for (let x = Math.max(0, column - reach + 1); x < Math.min(width, column + reach); x++) drawing[y * width + x] = Number(sign.value);
    }
    function paint(event) {
      if (!event.buttons) return;
      const box = canvas.getBoundingClientRect(), column = Math.floor(((event.clientX - box.left) * width) / box.width), row = Math.floor(((event.clientY - box.top) * height) / box.height);
      const [fromRow, fromColumn] = last || [row, column], steps = Math.max(1, Math.abs(row - fromRow), Math.abs(column - fromColumn));
      for (let k = 0; k <= steps; k++) dab(Math.round(fromRow + ((row - fromRow) * k) / steps), Math.round(fromColumn + ((column - fromColumn) * k) / steps));
      last = [row, column];
      show();
    }
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); last = null; paint(event); });
    canvas.addEventListener("pointermove", paint);
    canvas.addEventListener("pointerup", () => changed());
    under.onload = show;
    if (one.picture) under.src = one.picture; else show();
    const clear = element("button", { type: "button", onclick: () => { drawing.fill(0); show(); changed(); } }, "clear");
    const whole = element("div", {}, element("div", { class: "controls" }, signLabel, channels > 1 && channelLabel, clear), canvas);
    whole.move = (far) => ({ drawing: Array.from(drawing), channel: channel.value === "" ? null : Number(channel.value), far });
    return whole;
  }

  // What is said of a point: where it lies, and what the smoothed classifier answers there; to the left the picture, if any.
  function said(point, one, how, pictured) {
    const where = point.inside == null ? "No certificate here: the run abstains on this input" : point.inside ? "inside the region" : "outside the region";
    const part = point.part == null ? "" : `, ${point.part < 10 ? point.part.toFixed(3) : point.part.toPrecision(3)} of its radius away`;
    const says = point.label == null ? "cannot tell" : `class ${classOf(point.label)}`;
    const change = one.label != null && point.label !== one.label ? ` (certified: ${classOf(one.label)})` : "";
    const away = one.threat ? `: ${point.replaced.size ? point.replaced.words : "nothing"} replaced${one.threat.size ? `; certified: ${one.threat.words}` : ""}` : `; ${one.norm} distance ${point.distance.toPrecision(4)}, ${point.moved} ${point.moved === 1 ? "number" : "numbers"} changed`;
    return [element("div", { class: "verdict", "data-inside": String(point.inside), role: "status" },
      element("div", {}, element("strong", {}, where), part, away,
        point.outside > 0 && `, ${point.outside} ${point.outside === 1 ? "pixel" : "pixels"} outside [0, 1] (clipped for the eye)`),
      element("div", {}, `The smoothed classifier says: `, element("strong", { class: "answer" }, says), change, how),
      point.promised != null && element("div", {}, "The memory answers: ", element("strong", {}, `class ${classOf(point.promised)}`))),
    element("div", { class: "facts" }, pictured, element("div", { style: "flex: 1 1 16rem; min-width: 0" }, votes(point.counts, point.invalid, one.label ?? one.leader, [])))];
  }

  // Asks for the latest question only: while an answer is awaited the one before is forgotten.
  function asker(where, verdict, answered) {
    let waiting = false, next = null;
    return async (question) => {
      next = question;
      if (waiting) return;
      waiting = true;
      while (next) {
        const asked = next; next = null;
        const late = setTimeout(() => verdict.prepend(busy("asking the classifier…")), 300);
        try { const answer = await ask(where, asked); clearTimeout(late); answered(answer, asked); } catch (problem) { clearTimeout(late); verdict.replaceChildren(sorry(problem)); }
      }
      waiting = false;
    };
  }

  // Places that a threat may replace, on the picture: the worst that a search finds, or those that are clicked, with one value.
  function replacing(one, run) {
    const { threat } = one, [height, width] = threat.room.length === 2 ? threat.room : [1, threat.room[0]];
    const canvas = element("canvas", { width: 8 * width, height: Math.max(8 * height, 24), class: "places", role: "img", "aria-label": "the input, and what is replaced in it" });
    const verdict = element("div"), context = canvas.getContext("2d"), shown = new Image(), clicked = new Set();
    let point = null;
    const [whatLabel, what] = choice("replace ", [["worst", "the worst that a search finds"], ["0", "what I click, by 0"], ["1", "what I click, by 1"], ["0.5", "what I click, by 1/2"]], () => go());
    const most = Math.min(threat.most, Math.max(2 * threat.size + 4, 8));
    const size = element("input", { type: "range", min: 0, max: most, step: 1, value: Math.max(threat.size, Math.min(1, most)), "aria-label": "size", oninput: () => { clicked.clear(); go(); } });
    const words = element("output", { class: "faint" }), clear = element("button", { type: "button", onclick: () => { clicked.clear(); if (what.value === "worst") what.value = "0"; go(); } }, "clear");
    function show() {
      const side = canvas.width / width, tall = canvas.height / height;
      context.imageSmoothingEnabled = false;
      context.clearRect(0, 0, canvas.width, canvas.height);
      if (shown.complete && shown.naturalWidth) context.drawImage(shown, 0, 0, canvas.width, canvas.height);
      else { context.fillStyle = "#8a8f9655"; context.fillRect(0, 0, canvas.width, canvas.height); }
      if (!point || !point.replaced.places.length) return;
      context.lineWidth = 2; context.strokeStyle = point.inside ? "#009E73" : "#D55E00"; context.fillStyle = "rgba(230,159,0,.25)";
      const at = point.replaced.places.map((place) => [Math.floor(place / width), place % width]);
      at.forEach(([row, column]) => { context.fillRect(column * side, row * tall, side, tall); if (threat.name === "l0") context.strokeRect(column * side + 1, row * tall + 1, side - 2, tall - 2); });
      if (threat.name === "l0") return;
      // The whole patch or run that covers them, kept inside the picture.
      const long = Math.max(point.replaced.size, what.value === "worst" ? Number(size.value) : 0);
      const first = (values, end) => Math.max(0, Math.min(d3.min(values), end - long)), top = height === 1 ? 0 : first(at.map(([row]) => row), height), left = first(at.map(([, column]) => column), width);
      context.strokeRect(left * side + 1, top * tall + 1, Math.min(long, width) * side - 2, (height === 1 ? 1 : Math.min(long, height)) * tall - 2);
    }
    shown.onload = show;
    const send = asker(`${run.where}point`, verdict, (answer) => {
      point = answer;
      const names = threat.room.length === 2 ? ["row", "column"] : ["place"], places = answer.replaced.places;
      const from = places.length && threat.name !== "l0" ? `, from ${names.length === 2 ? `row ${Math.floor(places[0] / width)}, column ${d3.min(places, (place) => place % width)}` : `place ${places[0]}`}` : "";
      words.textContent = what.value === "worst" ? `size ${size.value}, ${answer.replaced.places.length} places changed${from}` : `${clicked.size} places`;
      verdict.replaceChildren(...said(answer, one, one.exact ? `: all ${one.trials} views were asked` : " by fresh views", null));
      if (answer.picture) shown.src = answer.picture; else show();
    });
    const go = () => send({ index: one.index, votes: 1000, move: what.value === "worst" ? { worst: Number(size.value) } : { places: [...clicked], value: Number(what.value) } });
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect(), column = Math.floor(((event.clientX - box.left) * width) / box.width), row = Math.floor(((event.clientY - box.top) * height) / box.height);
      const long = Number(size.value), half = Math.floor(long / 2), from = (at, end) => Math.max(0, Math.min(at - half, end - long));
      if (what.value === "worst") { what.value = "1"; clicked.clear(); }
      if (threat.name === "l0") { const place = row * width + column; clicked.has(place) ? clicked.delete(place) : clicked.add(place); }
      else {
        clicked.clear();
        const top = height === 1 ? 0 : from(row, height), left = from(column, width);
        for (let y = top; y < Math.min(height, height === 1 ? 1 : top + long); y++) for (let x = left; x < Math.min(width, left + long); x++) clicked.add(y * width + x);
      }
      go();
    });
    go();
    return section("around", titled("What may be replaced", run),
      element("div", { class: "controls" }, whatLabel, clear), element("div", { class: "controls" }, element("label", {}, `${threat.measure} `, size), words),
      element("div", { class: "pair" }, element("div", {}, canvas), verdict),
      element("p", { class: "faint" }, `Outlined: what is replaced, green while it is inside the certified region. A search chooses places and values by the gradient, by chance and by trying all views at the worst of them; click to choose places yourself. ${threat.size ? `No values at all in ${threat.words} change the answer.` : ""}`));
  }

  // One input of one run: its certificate, its votes, its noise, a slice, and a point to move. What is set stays set for the next.
  const kept = { axes: address.get("axes") || "nearest", votes: "0", zoom: "0", way: "a", far: "0", count: "100", anew: false, seed: 0 };
  const titled = (words, run) => (data.beside ? `${words} in ${run.run.name}` : words);
  function plane(one, run) {
    let ticket = null, found = null, at = null, turn = 0;
    const status = element("div", { role: "status" }), verdict = element("div");
    const picture = chart((width) => (found ? drawSlice(found, one, at, pick, width) : nothing("The slice appears here.")));
    const keep = (name, control) => { kept[name] = control.type === "checkbox" ? control.checked : control.value; if (name === "axes") address.set("axes", kept.axes === "nearest" ? "" : kept.axes); };
    const [axesLabel, axes] = choice("axes ", [["nearest", "towards the nearest other class"], ["random", "two random directions"], ["extremes", "largest and least θ"], ["curvature", "top and bottom Hessian eigenvectors"]], () => { keep("axes", axes); draw(); }, kept.axes);
    const [votesLabel, per] = choice("classifier ", run.votes.map((n) => [n, n ? `smoothed, ${one.exact ? Math.min(n, one.trials) : n} ${one.exact ? "views" : "votes"} a point` : `base, without ${one.views ? "views" : "noise"}`]), () => { keep("votes", per); draw(); }, kept.votes);
    const [zoomLabel, zoom] = choice("width ", run.zooms.map((n) => [n, n === 0 ? "to the next class" : one.label == null ? `${n} × the noise` : `${n} × the region`]), () => { keep("zoom", zoom); draw(); }, kept.zoom);
    const again = element("button", { type: "button", onclick: () => { kept.seed += 1; draw(); } }, "other directions");
    const [wayLabel, way] = choice("along ", [["a", "first axis of the slice"], ["b", "second axis of the slice"], ["point", "the point clicked on the slice"], ...(one.drawable ? [["drawing", "my drawing"]] : [])], () => { keep("way", way); slide(); }, kept.way === "b" ? "b" : "a");
    const far = element("input", { type: "range", min: -3, max: 3, step: 0.02, value: kept.way === "b" || kept.way === "a" ? kept.far : 0, "aria-label": "how far", oninput: () => { keep("far", far); slide(); } });
    const words = element("output", { class: "faint" });
    const [countLabel, count] = choice("votes ", [[100, "100"], [1000, "1 000"], [10000, "10 000"]], () => { keep("count", count); slide(); }, kept.count);
    const anew = element("input", { type: "checkbox", checked: kept.anew, onchange: () => { keep("anew", anew); slide(); } });
    const paper = one.drawable && painter(one, () => { way.value = "drawing"; if (Number(far.value) === 0) far.value = 1; slide(); });
    let clicked = [0, 0];
    function pick(a, b) { clicked = [a, b]; way.value = "point"; far.value = 1; slide(); }
    // Where the region ends along a direction of the plane; without a region, the size of the noise.
    function end(name) {
      const line = found.outlines.region;
      return line ? Math.abs(line[name === "a" ? 0 : (line.length - 1) / 4][name === "a" ? 0 : 1]) : found.unit;
    }

    const progress = (done, total) => status.replaceChildren(element("progress", { max: total, value: done, "aria-label": "the slice" }), element("span", { class: "faint busy" }, !done ? "finding the axes…" : done < total ? `${done} of ${total} points` : "asking the deployed classifier, which chooses its noise anew at every point…"));
    const giveUp = () => { turn += 1; if (ticket) { ask(`${run.where}stop`, { ticket }).catch(() => {}); ticket = null; } };
    async function draw() {
      giveUp();
      const mine = turn, own = `${page}-${++tickets}`;
      ticket = own;
      progress(0, 1);
      const asked = { index: one.index, axes: axes.value, seed: kept.seed, votes: Number(per.value), zoom: Number(zoom.value) };
      again.disabled = axes.value === "extremes" || axes.value === "nearest";
      let first = true;
      try {
        for (;;) {
          const state = await ask(`${run.where}slice`, { asked, ticket: own });
          if (mine !== turn) return;
          if (state.problem) throw new Error(state.problem);
          if (state.slice && state.slice.label.some((each) => each != null)) {
            found = state.slice;
            picture.redraw();
            if (first) { first = false; clicked = [0, 0]; slide(); }
          }
          if (state.whole) { ticket = null; break; }
          progress(state.done, state.total);
          await new Promise((next) => setTimeout(next, state.done ? 150 : 60));
        }
        const box = found.outlines.box, tight = box && d3.max(box, (corner) => Math.hypot(...corner)) < found.extent / 16;
        status.replaceChildren(...[found.note && element("p", { class: "faint" }, found.note), tight && element("p", { class: "faint" }, `Nearly every step in this plane takes some pixel outside [0, 1], where no picture lies; ${one.front?.boxed ? "the front takes none, and what is shown there is of the nearest picture" : "the certificate covers that too"}.`)].filter(Boolean));
      } catch (problem) {
        if (mine === turn) { ticket = null; status.replaceChildren(sorry(problem)); }
      }
    }

    // Ask at the slider's place.
    const send = asker(`${run.where}point`, verdict, (point, question) => verdict.replaceChildren(...said(point, one, one.exact ? `: all ${one.trials} views were asked` : question.anew ? " with the noise chosen anew here" : " with this input's noise",
      point.picture && element("figure", {}, image(point.picture, "the moved input", "pixels big"), element("figcaption", {}, "the moved input")))));
    function slide() {
      const times = Number(far.value), plane = (a, b) => ({ axes: found.axes, seed: found.seed, a, b });
      let move;
      if (way.value === "drawing") { move = paper.move(0.5 * times); at = null; words.textContent = `× ${(0.5 * times).toFixed(2)} where painted`; }
      else if (!found) return;
      else {
        const step = way.value === "point" ? clicked.map((each) => each * times) : way.value === "a" ? [times * end("a"), 0] : [0, times * end("b")];
        move = plane(...step); at = step;
        words.textContent = way.value === "point" ? `× ${times.toFixed(2)} of the way to the point` : one.label == null ? `${times.toFixed(2)} × the noise` : `${times.toFixed(2)} × to the region's edge`;
      }
      picture.redraw();
      send({ index: one.index, move, votes: Number(count.value), anew: anew.checked });
    }

    draw();
    const made = section("around", titled("Around it", run),
        element("div", { class: "controls" }, axesLabel, again, votesLabel, zoomLabel), status,
        element("div", { class: "pair" }, picture, element("div", {},
          element("h3", {}, "Move the input"),
          element("div", { class: "controls" }, wayLabel, !one.exact && countLabel, run.reads_input && element("label", {}, anew, "choose the noise anew there, as the deployed classifier does")),
          element("div", { class: "controls" }, far, words), verdict,
          paper && [element("h3", {}, "Draw a perturbation"), paper])),
        element("p", { class: "faint" }, `A plane through the input, which is moved along the axes in its own units${one.grid ? " (a pixel runs from 0 to 1)" : ""}. Colours are classes, strong colours sure ones. The certificate is of the smoothed classifier: the base one may answer otherwise inside the region. Click a point to ask there.`));
    made.giveUp = giveUp;
    return made;
  }

  function look(one, run) {
    const bounds = one.exact ? [] : [{ at: one.lower, colour: "var(--run-1)", words: "lower bound" }, ...(one.upper == null ? [] : [{ at: one.upper, colour: "var(--run-3)", words: "upper bound of the runner-up" }])];
    const around = one.threat ? replacing(one, run) : plane(one, run);
    const made = element("div", { class: "look" },
      section("input", titled(`Input ${one.index}`, run),
        element("div", { class: "facts" }, one.picture && image(one.picture, `input ${one.index}`, "pixels big"), facts(one))),
      around,
      section("votes", titled("Votes", run),
        one.exact ? element("p", { class: "faint" }, `All ${one.trials} views were asked, and nothing is left to chance: no bound, and no alpha.${one.invalid ? ` ${one.invalid} voted for nobody, being no numbers or not sure enough.` : ""}`)
          : element("p", { class: "faint" }, `${one.trials} votes. Dashed: class ${classOf(one.leader)} wins with probability at least ${one.lower_words}, except with probability ${one.alpha}.`, one.upper != null && ` Its strongest rival wins with at most ${one.upper.toPrecision(5)} (second dashed line).`,
          one.label != null && one.label !== one.leader && ` The memory had promised class ${classOf(one.label)} here before, and keeps it.`),
        votes(one.counts, one.invalid, one.leader, bounds), !one.exact && arriving(one)),
      section("noise", titled(one.views ? "Views" : "Noise", run),
        one.copies[0].picture ? [element("p", { class: "faint" }, `${one.exact ? `${one.copies.length} of all ${one.trials} views, evenly spaced` : one.views ? "The first views that voted" : "The first noisy copies that voted"}, and the base classifier's answer to each; ≠: not class ${classOf(one.leader)}, which had the most votes. ${one.front ? "Shown is the input nearest to μ that has these numbers. " : ""}Pixels are clipped for the eye only.${one.views ? " –: a vote for nobody." : ""}`),
          element("div", { class: "strip" }, one.copies.map((copy) => element("figure", {}, image(copy.picture, one.views ? "view" : "noisy copy"), element("figcaption", { class: copy.answer !== one.leader && "differs" }, copy.answer == null ? one.views ? "–" : "NaN" : String(copy.answer)))))]
          : element("p", { class: "faint" }, `The input is no picture. The base classifier's answers to ${one.views ? "some views of it" : "its first noisy copies"}: ${one.copies.map((copy) => copy.answer ?? "NaN").join(", ")}.`),
        one.threat ? null : one.maps.length ? [element("h3", {}, one.front ? "How far each pixel alone may go in a region of radius 1" : "θ: the scale of the noise, and of the region, per pixel"), element("div", { class: "strip" }, one.maps.map((map, k) => element("figure", {}, image(map.picture, `${one.front ? "reach" : "θ"} of channel ${k}`, "pixels big"), element("figcaption", {}, `channel ${k}: ${map.low} (dark) to ${map.high}${one.front ? ", or farther" : ""}`))))]
          : element("p", { class: "faint" }, one.front ? `Each coordinate alone may go ${range(one.scale)} in a region of radius 1.` : one.scale[0] === one.scale[2] ? `θ is ${one.scale[0].toPrecision(4)} in every coordinate.` : `θ: least ${one.scale[0].toPrecision(4)}, median ${one.scale[1].toPrecision(4)}, largest ${one.scale[2].toPrecision(4)}.`)));
    made.giveUp = around.giveUp || (() => {});
    return made;
  }

  // The list: filters above, one line per input; j, k and the arrow keys go through it.
  const rows = rowsOf(data.lines), items = element("ol", { "aria-label": "inputs" }), told = element("p", { class: "faint", role: "status" });
  const runs = [{ ...data, where: "" }, ...(data.beside ? [data.beside] : [])];
  let shown = rows, chosen = null, last = 0, looks = [];
  function fill() {
    shown = d3.sort(rows.filter((row) => boxes.keep(row, data.lines)), (row) => row.index);
    const at = Math.max(0, shown.findIndex((row) => row.index === chosen)), first = Math.max(0, Math.min(at - 100, shown.length - MOST));
    items.replaceChildren(...shown.slice(first, first + MOST).map((row) => {
      const cell = [...row.cells.values()][0], kind = outcome(cell), line = [...row.cells.keys()][0];
      const words = { abstained: "abstains", wrong: `says ${classOf(cell.label)}`, right: "", certified: `says ${classOf(cell.label)}` }[kind];
      return element("li", {}, element("button", { type: "button", "data-index": row.index, "aria-current": String(row.index === chosen), title: attackWords(cell), onclick: () => choose(row.index) },
        element("span", {}, String(row.index)), data.pictures.inputs[row.index] ? image(data.pictures.inputs[row.index], "", "") : element("span"),
        element("span", {}, row.truth == null ? "" : classOf(row.truth), element("small", { class: kind === "wrong" ? "wrong" : "faint" }, ` ${words}`)),
        element("span", { class: "end" }, cell.label == null ? "–" : fixed(cell.radius, line.digits), signs(cell))));
    }));
    told.textContent = shown.length ? `${shown.length} of ${rows.length} inputs${shown.length > MOST ? `; ${MOST} of them are listed` : ""}` : "no input matches";
  }
  const boxes = filters(rows, data.lines, { classOf, address, changed: () => fill() });

  const detail = element("div", { id: "detail" }, nothing("Choose an input from the list."));
  async function choose(index, push = true) {
    const mine = ++last;
    chosen = index;
    if (push && address.get("input") !== String(index)) history.pushState({}, "", location.hash || "#");
    address.set("input", String(index));
    if (!items.querySelector(`button[data-index="${index}"]`)) fill();
    items.querySelectorAll("button").forEach((one) => one.setAttribute("aria-current", String(Number(one.dataset.index) === index)));
    items.querySelector("button[aria-current=true]")?.scrollIntoView({ block: "nearest" });
    looks.forEach((one) => one.giveUp());
    looks = [];
    detail.replaceChildren(busy(`looking at input ${index}…`));
    try {
      const found = await Promise.all(runs.map((run) => ask(`${run.where}input/${index}`).then((one) => [one, run]).catch((problem) => (run.where ? [problem, run] : Promise.reject(problem)))));
      if (mine !== last) return;
      looks = found.filter(([one]) => !(one instanceof Error)).map(([one, run]) => look(one, run === runs[0] ? Object.assign(data, { where: "" }) : run));
      detail.classList.toggle("two", found.length > 1);
      detail.replaceChildren(...looks, ...found.filter(([one]) => one instanceof Error).map(([problem]) => sorry(problem)));
      if (innerWidth < 960) detail.scrollIntoView();
    } catch (problem) {
      if (mine === last) detail.replaceChildren(sorry(problem));
    }
  }
  addEventListener("keydown", (event) => {
    const by = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key], inside = event.target.closest("select, input, textarea");
    if (by == null || inside || event.ctrlKey || event.metaKey || event.altKey || !shown.length) return;
    if (event.key.startsWith("Arrow") && !event.target.closest(".list") && event.target !== document.body) return;
    event.preventDefault();
    const at = shown.findIndex((row) => row.index === chosen), to = shown[at < 0 ? 0 : Math.max(0, Math.min(shown.length - 1, at + by))];
    if (to.index !== chosen) choose(to.index);
  });
  addEventListener("popstate", () => { address.reread(); const index = address.get("input"); if (index !== "") choose(Number(index), false); else { chosen = null; fill(); looks.forEach((one) => one.giveUp()); looks = []; detail.replaceChildren(nothing("Choose an input from the list.")); } });
  fill();
  place.append(element("div", { class: "split" },
    element("nav", { class: "list", "aria-label": "inputs" }, element("h2", {}, data.run.name, data.beside && ` and ${data.beside.run.name}`), boxes, told, items, element("p", { class: "faint" }, "j, k: next, previous. ○ echoes, ✗ broken by an attack.")), detail),
    section("runs", "How it was made", runs.map((run) => Smoothcert.configuration(run.run, false))),
    element("footer", { class: "faint" }, `smoothcert ${data.version}. Charts: Observable Plot and D3, ISC licence.`));
  if (/^\d+$/.test(address.get("input"))) choose(Number(address.get("input")), false);
}
