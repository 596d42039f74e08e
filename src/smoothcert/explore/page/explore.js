// The explorer: the report's components around one input, and questions to the server behind this page.
function explore(data, place) {
  const { element, section, choice, chart, frame, nothing } = Smoothcert;
  Smoothcert.theme(document.getElementById("theme"));
  const image = (source, words, kind = "pixels") => element("img", { src: source, alt: words, class: kind });
  const bar = (options) => ({ marginTop: 24, ...options });

  async function ask(address, question) {
    const options = question && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) };
    let reply;
    try { reply = await fetch(address, options); } catch { throw new Error("smoothcert explore no longer answers; start it again in the terminal"); }
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.error);
    return found;
  }
  const sorry = (problem) => element("p", { class: "problem", role: "alert" }, problem.message);

  // The shares of the classes that got votes, most first; rules at the bounds.
  function votes(counts, invalid, label, bounds) {
    const total = d3.sum(counts) + invalid;
    const rows = counts.map((count, at) => ({ name: String(at), count })).concat(invalid ? [{ name: "NaN", count: invalid }] : []);
    const shown = d3.sort(rows, (row) => -row.count).filter((row, at) => row.count > 0 || at < 2).slice(0, 10);
    return chart((width) => frame(width, bar({
      height: 60 + 24 * shown.length, marginLeft: 40, marginRight: 60,
      x: { label: "share of the votes", domain: [0, 1], labelAnchor: "center", labelArrow: "none" },
      y: { label: null, domain: shown.map((row) => row.name) },
      marks: [
        Plot.barX(shown, { x: (row) => row.count / total, y: "name", fill: (row) => (row.name === String(label) ? "#0072B2" : "#999999"), title: (row) => `class ${row.name}: ${row.count} of ${total} votes` }),
        Plot.text(shown, { x: (row) => row.count / total, y: "name", text: (row) => String(row.count), textAnchor: "start", dx: 4 }),
        bounds.map((bound) => Plot.ruleX([bound.at], { stroke: bound.colour, strokeWidth: 2, strokeDasharray: "4 3", title: () => bound.words })),
      ],
    })));
  }

  function facts(one) {
    const answer = one.label == null ? "abstains: the votes cannot tell" : `class ${one.label}`;
    const rows = [
      ["answer", `${answer}${one.truth == null ? "" : `; truth ${one.truth}`}`],
      ["label", `${one.soundness}: ${one.meaning}`],
      ["inner radius", one.label == null ? "–" : `${one.radius} (${one.norm}): of the largest plain ball in the region`],
      ["proxy radius", one.label == null ? "–" : `${one.proxy}: of the ball of the region's volume`],
      ...(one.label == null || one.boxed == null ? [] : [["in the input box", `${one.boxed}: the same of the part that an input can lie in`]]),
      ["noise", `${one.law}, scale θ from ${one.scale[0].toPrecision(4)} to ${one.scale[2].toPrecision(4)}`],
      ["theorem", one.rule || "–"],
      ["points", one.grid ? `on the grid of 1/${one.grid}` : "real numbers, in float32"],
    ];
    return element("dl", {}, rows.flatMap(([name, words]) => [element("dt", {}, name), element("dd", {}, words)]));
  }

  // A plane through the input: the classes on it, the two regions, the current point; pick(a, b) is called on a click.
  function drawSlice(found, label, at, pick, width) {
    const { size, extent } = found, order = d3.rollups(found.label.filter((one) => one >= 0), (all) => -all.length, (one) => one);
    const classes = d3.sort(order, ([one, count]) => (one === label ? -Infinity : count)).map(([one]) => one);
    const palette = ["#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#0072B2", ...d3.schemeTableau10];
    const colours = new Map(classes.map((one, k) => [one, palette[k % palette.length]]));
    const side = Math.min(width, 520), cell = (2 * extent) / (size - 1), edge = extent + cell / 2;
    const cells = found.label.map((one, k) => ({ one, share: found.share[k], a: -extent + cell * (k % size), b: -extent + cell * Math.floor(k / size) }));
    const line = (name, style) => found.outlines[name] && Plot.line(found.outlines[name], { ...style, clip: true });
    const share = found.votes ? `of ${found.votes} votes` : "probability";
    const drawn = Plot.plot({
      width: side, height: side, marginLeft: 52, marginBottom: 44, marginTop: 12, marginRight: 12, style: { background: "transparent", fontSize: "12px" },
      x: { domain: [-edge, edge], label: found.words[0], labelAnchor: "center", labelArrow: "none", ticks: 6 },
      y: { domain: [-edge, edge], label: found.words[1], labelAnchor: "center", labelArrow: "none", ticks: 6 },
      marks: [
        Plot.rect(cells, { x1: (d) => d.a - cell / 2, x2: (d) => d.a + cell / 2, y1: (d) => d.b - cell / 2, y2: (d) => d.b + cell / 2, inset: -0.3,
          fill: (d) => colours.get(d.one) || "#888888", fillOpacity: (d) => 0.15 + 0.7 * d.share }),
        line("region", { stroke: "currentColor", strokeWidth: 2.5 }),
        line("inner", { stroke: "currentColor", strokeWidth: 1.5, strokeDasharray: "5 4" }),
        Plot.dot([[0, 0]], { symbol: "plus", r: 4, stroke: "currentColor", strokeWidth: 1.5 }),
        at && Math.max(Math.abs(at[0]), Math.abs(at[1])) <= edge && Plot.dot([at], { r: 6, fill: "#D55E00", stroke: "white", strokeWidth: 1.5 }),
        Plot.tip(cells, Plot.pointer({ x: "a", y: "b", maxRadius: 30, title: (d) => (d.one < 0 ? "no class" : `class ${d.one}: ${d.share.toFixed(2)} ${share}`) })),
      ],
    });
    drawn.style.cursor = "crosshair";
    drawn.addEventListener("click", (event) => {
      const box = drawn.getBoundingClientRect();
      pick(drawn.scale("x").invert(((event.clientX - box.left) * side) / box.width), drawn.scale("y").invert(((event.clientY - box.top) * side) / box.height));
    });
    const swatch = (one) => element("li", {}, element("span", { style: `display:inline-block;width:.9em;height:.9em;border-radius:2px;background:${colours.get(one)}` }), ` class ${one}`);
    return element("div", {}, drawn, element("ul", { class: "legend faint" }, classes.slice(0, 10).map(swatch), element("li", {}, "━ certified region"), element("li", {}, "┅ largest plain ball inside"), element("li", {}, "+ the input")));
  }

  // A canvas over the picture: paint up or down; drawing is one number per pixel.
  function painter(one, changed) {
    const [height, width] = one.shape.slice(-2), drawing = new Float32Array(height * width);
    const canvas = element("canvas", { width, height, class: "pixels big", "aria-label": "draw a perturbation" });
    const context = canvas.getContext("2d"), under = new Image();
    const [signLabel, sign] = choice("brush ", [[1, "brighter"], [-1, "darker"], [0, "erase"]], () => {});
    const channels = one.shape.length === 3 ? one.shape[0] : 1;
    const [channelLabel, channel] = choice("channel ", [["", "all"], ...d3.range(channels).map((k) => [k, k])], () => changed());
    const reach = Math.max(1, Math.round(Math.max(height, width) / 20));
    function show() {
      context.clearRect(0, 0, width, height);
      if (one.picture) context.drawImage(under, 0, 0, width, height);
      drawing.forEach((value, at) => { if (value) { context.fillStyle = value > 0 ? "rgba(230,159,0,.75)" : "rgba(0,114,178,.75)"; context.fillRect(at % width, Math.floor(at / width), 1, 1); } });
    }
    function paint(event) {
      if (!event.buttons) return;
      const box = canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) * width) / box.width), row = Math.floor(((event.clientY - box.top) * height) / box.height);
      for (let y = Math.max(0, row - reach + 1); y < Math.min(height, row + reach); y++)
        for (let x = Math.max(0, column - reach + 1); x < Math.min(width, column + reach); x++) drawing[y * width + x] = Number(sign.value);
      show();
    }
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); paint(event); });
    canvas.addEventListener("pointermove", paint);
    canvas.addEventListener("pointerup", () => changed());
    under.onload = show;
    if (one.picture) under.src = one.picture; else show();
    const clear = element("button", { type: "button", onclick: () => { drawing.fill(0); show(); changed(); } }, "clear");
    const whole = element("div", {}, element("div", { class: "controls" }, signLabel, channels > 1 && channelLabel, clear), canvas);
    whole.move = (far) => ({ drawing: Array.from(drawing), channel: channel.value === "" ? null : Number(channel.value), far });
    return whole;
  }

  // One input: its certificate, its votes, its noise, a slice, and a point to move.
  function look(one) {
    let seed = 0, asked = null, found = null, at = null, turn = 0, latest = 0;
    const status = element("div", { role: "status" }), verdict = element("div");
    const picture = chart((width) => (found ? drawSlice(found, one.label ?? one.leader, at, pick, width) : nothing("The slice appears here.")));
    const [axesLabel, axes] = choice("axes ", [["random", "two random directions"], ["extremes", "largest and least θ"], ["curvature", "top and bottom Hessian eigenvectors"]], () => draw());
    const [votesLabel, per] = choice("classifier ", data.votes.map((n) => [n, n ? `smoothed, ${n} votes a point` : "base, without noise"]), () => draw());
    const [zoomLabel, zoom] = choice("width ", data.zooms.map((n) => [n, `${n} × the region`]), () => draw());
    zoom.value = data.zooms[1];
    const again = element("button", { type: "button", onclick: () => { seed += 1; draw(); } }, "other directions");
    const [wayLabel, way] = choice("along ", [["a", "first axis of the slice"], ["b", "second axis of the slice"], ["point", "the point clicked on the slice"], ...(one.drawable ? [["drawing", "my drawing"]] : [])], () => { slide(); });
    const far = element("input", { type: "range", min: -3, max: 3, step: 0.02, value: 0, "aria-label": "how far", oninput: () => slide() });
    const words = element("output", { class: "faint" });
    const [countLabel, count] = choice("votes ", [[100, "100"], [1000, "1 000"], [10000, "10 000"]], () => slide());
    const anew = element("input", { type: "checkbox", onchange: () => slide() });
    const paper = one.drawable && painter(one, () => { way.value = "drawing"; if (Number(far.value) === 0) far.value = 1; slide(); });
    let clicked = [0, 0];
    function pick(a, b) { clicked = [a, b]; way.value = "point"; far.value = 1; slide(); }
    // Where the region ends along a direction of the plane; without a region, the size of the slice.
    function end(name) {
      if (!found) return 0;
      const line = found.outlines.region;
      return line ? Math.abs(line[name === "a" ? 0 : (line.length - 1) / 4][name === "a" ? 0 : 1]) : found.extent / found.zoom;
    }

    const progress = (done, total) => status.replaceChildren(element("progress", { max: total, value: done, "aria-label": "the slice" }), element("span", { class: "faint" }, done ? `row ${done} of ${total}` : "finding the axes…"));
    async function draw() {
      const mine = ++turn;
      progress(0, 1);
      if (asked) ask("stop", asked).catch(() => {});
      const question = { index: one.index, axes: axes.value, seed, votes: Number(per.value), zoom: Number(zoom.value) };
      again.disabled = axes.value === "extremes";
      asked = question;
      try {
        for (;;) {
          const state = await ask("slice", question);
          if (mine !== turn) return;
          if (state.problem) throw new Error(state.problem);
          if (state.slice) { found = state.slice; asked = null; break; }
          progress(state.done, state.total);
          await new Promise((next) => setTimeout(next, 150));
        }
        status.replaceChildren(found.note ? element("p", { class: "faint" }, found.note) : "");
        clicked = [0, 0];
        slide();
      } catch (problem) {
        if (mine === turn) { asked = null; status.replaceChildren(sorry(problem)); }
      }
      picture.redraw();
    }

    // Ask at the slider's place; while an answer is awaited only the latest place is kept.
    let waiting = false, next = null;
    async function slide() {
      const times = Number(far.value), plane = (a, b) => ({ axes: found.axes, seed: found.seed, a, b });
      let move;
      if (way.value === "drawing") { move = paper.move(0.5 * times); at = null; words.textContent = `× ${(0.5 * times).toFixed(2)} where painted`; }
      else if (!found) return;
      else {
        const step = way.value === "point" ? clicked.map((one) => one * times) : way.value === "a" ? [times * end("a"), 0] : [0, times * end("b")];
        move = plane(...step); at = step;
        words.textContent = way.value === "point" ? `× ${times.toFixed(2)} of the way to the point` : `${times.toFixed(2)} × to the region's edge`;
      }
      picture.redraw();
      next = { index: one.index, move, votes: Number(count.value), anew: anew.checked };
      if (waiting) return;
      waiting = true;
      while (next) {
        const question = next; next = null;
        try { say(await ask("point", question), question); } catch (problem) { verdict.replaceChildren(sorry(problem)); }
      }
      waiting = false;
    }
    function say(point, question) {
      const where = point.inside == null ? "there is no region: the certificate abstains" : point.inside ? "inside the region" : "outside the region";
      const part = point.part == null ? "" : `, ${point.part < 10 ? point.part.toFixed(3) : point.part.toPrecision(3)} of its radius away`;
      const says = point.label == null ? "cannot tell" : `class ${point.label}`;
      const change = one.label != null && point.label !== one.label ? ` (certified: ${one.label})` : "";
      verdict.replaceChildren(element("div", { class: "verdict", "data-inside": String(point.inside), role: "status" },
        element("div", {}, element("strong", {}, where), part, `; ${one.norm} distance ${point.distance.toPrecision(4)}, ${point.moved} ${point.moved === 1 ? "number" : "numbers"} changed`),
        element("div", {}, `The smoothed classifier says: `, element("strong", { class: "answer" }, says), change, question.anew ? " with the noise chosen anew here" : " with this input's noise"),
        point.promised != null && element("div", {}, "The memory answers: ", element("strong", {}, `class ${point.promised}`))),
      element("div", { class: "facts" }, point.picture && element("figure", {}, image(point.picture, "the moved input", "pixels big"), element("figcaption", {}, "the moved input")), element("div", { style: "flex: 1 1 16rem; min-width: 0" }, votes(point.counts, point.invalid, one.label, []))));
    }

    draw();
    const bounds = [{ at: one.lower, colour: "#D55E00", words: "lower bound" }, ...(one.upper == null ? [] : [{ at: one.upper, colour: "#CC79A7", words: "upper bound of the runner-up" }])];
    return element("div", {},
      section("input", `Input ${one.index}`,
        element("div", { class: "facts" }, one.picture && image(one.picture, `input ${one.index}`, "pixels big"), facts(one))),
      section("votes", "Votes",
        element("p", { class: "faint" }, `${one.trials} votes. Dashed: class ${one.leader} wins with probability at least ${one.lower_words}, except with probability ${one.alpha}.`, one.upper != null && ` Its strongest rival wins with at most ${one.upper.toPrecision(5)} (second dashed line).`,
          one.label != null && one.label !== one.leader && ` The memory had promised class ${one.label} here before, and keeps it.`),
        votes(one.counts, one.invalid, one.leader, bounds)),
      section("noise", "Noise",
        one.copies[0].picture ? [element("p", { class: "faint" }, "The first noisy copies that voted, and the base classifier's answer to each. Pixels are clipped for the eye only."),
          element("div", { class: "strip" }, one.copies.map((copy) => element("figure", {}, image(copy.picture, "noisy copy"), element("figcaption", { class: copy.answer !== one.leader && "differs" }, copy.answer == null ? "NaN" : String(copy.answer)))))]
          : element("p", { class: "faint" }, `The input is no picture. The base classifier's answers to its first noisy copies: ${one.copies.map((copy) => copy.answer ?? "NaN").join(", ")}.`),
        one.maps.length ? [element("h3", {}, "θ: the scale of the noise, and of the region, per pixel"), element("div", { class: "strip" }, one.maps.map((map, k) => element("figure", {}, image(map.picture, `θ of channel ${k}`, "pixels big"), element("figcaption", {}, `channel ${k}: ${map.low} (dark) to ${map.high}`))))]
          : element("p", { class: "faint" }, one.scale[0] === one.scale[2] ? `θ is ${one.scale[0].toPrecision(4)} in every coordinate.` : `θ: least ${one.scale[0].toPrecision(4)}, median ${one.scale[1].toPrecision(4)}, largest ${one.scale[2].toPrecision(4)}.`)),
      section("around", "Around it",
        element("p", { class: "faint" }, `A plane through the input, which is moved along the axes in its own units${one.grid ? " (a pixel runs from 0 to 1)" : ""}. Colours are classes, strong colours sure ones. Click a point to ask there.`),
        element("div", { class: "controls" }, axesLabel, again, votesLabel, zoomLabel), status,
        element("div", { class: "pair" }, picture, element("div", {},
          element("h3", {}, "Move the input"),
          element("div", { class: "controls" }, wayLabel, countLabel, data.reads_input && element("label", {}, anew, "choose the noise anew there, as the deployed classifier does")),
          element("div", { class: "controls" }, far, words), verdict,
          paper && [element("h3", {}, "Draw a perturbation"), paper]))));
  }

  const detail = element("div", { id: "detail" }, nothing("Click an input in the table."));
  let last = 0;
  async function choose(index) {
    const mine = ++last;
    location.hash = String(index);
    table.querySelectorAll("tbody tr").forEach((row) => row.classList.toggle("chosen", Number(row.dataset.index) === index));
    detail.replaceChildren(element("p", { class: "faint" }, `looking at input ${index}…`));
    try {
      const one = await ask(`input/${index}`);
      if (mine === last) { detail.replaceChildren(look(one)); detail.scrollIntoView({ behavior: "smooth" }); }
    } catch (problem) {
      if (mine === last) detail.replaceChildren(sorry(problem));
    }
  }
  const table = Smoothcert.inputs(data.lines, data.pictures, { clicked: choose });
  place.append(section("each", data.run.name, table), detail,
    section("runs", "How it was made", Smoothcert.configuration(data.run, false)),
    element("footer", { class: "faint" }, `smoothcert ${data.version}. Charts: Observable Plot and D3, ISC licence.`));
  if (/^#\d+$/.test(location.hash)) choose(Number(location.hash.slice(1)));
}
