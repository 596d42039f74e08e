// The report: what was asked, what came of it, and the numbers behind, all following the runs that are shown and one radius.
(() => {
  const { element, column, colour, fixed, unique, grouped, address: addressOf, chart, nothing, swatch, table, choice, configuration, section,
    curves, probabilities, histograms, room, lineTitle, normsOf, inputs, outcome } = Smoothcert;

  // Which runs are shown and where the cross-hair stands; whoever listens is told what changed.
  function viewOf(data) {
    const address = addressOf(), { lines, grids } = data, told = { radius: [], all: [] };
    const hidden = new Set(address.get("hide").split(",").filter(Boolean));
    const stops = Object.fromEntries(Object.entries(grids).map(([norm, grid]) => {
      const asked = address.get(norm), at = asked === "" ? grid.start : Math.round(Number(asked) / grid.step);
      return [norm, Math.max(0, Math.min(grid.number, Number.isFinite(at) ? at : grid.start))];
    }));
    const radiusAt = (norm, stop) => Number((stop * grids[norm].step).toPrecision(12));
    const view = {
      address, kind: address.get("against") === "proxy" ? "proxy" : "radius", bands: address.get("bands") !== "no",
      get shown() { return lines.filter((line) => !hidden.has(String(line.position))); },
      hides: (line) => hidden.has(String(line.position)),
      hide(line, yes) { yes ? hidden.add(String(line.position)) : hidden.delete(String(line.position)); address.set("hide", [...hidden].join(",")); view.tell(); },
      stop: (norm) => stops[norm],
      radius: (norm) => radiusAt(norm, stops[norm]), radiusAt,
      move(norm, stop) {
        const now = Math.max(0, Math.min(grids[norm].number, stop));
        if (now === stops[norm]) return;
        stops[norm] = now; address.set(norm, now === grids[norm].start ? "" : String(radiusAt(norm, now)));
        told.radius.forEach((listen) => listen(norm));
      },
      set(name, value, words) { view[name] = value; address.set(...words); view.tell(); },
      tell() { told.all.forEach((listen) => listen()); told.radius.forEach((listen) => listen(null)); },
      on(kind, listen) { told[kind].push(listen); },
    };
    return view;
  }
  const share = (curve, stop) => ({ y: curve.at.y[stop], low: curve.at.low[stop], high: curve.at.high[stop] });
  const percent = (value) => `${fixed(Math.floor(value * 10 + 1e-6) / 10, 1)} %`;
  const banded = ({ y, low, high }) => `${percent(y)} (${fixed(Math.floor(low * 10 + 1e-6) / 10, 1)}–${fixed(Math.ceil(high * 10 - 1e-6) / 10, 1)})`;
  const decimals = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const written = (view, norm, grids) => (grids[norm].step ? view.radius(norm).toFixed(decimals(grids[norm].step)) : "0");

  // The bar that stays in sight: which runs, and the radius, to drag or to move by the arrow keys.
  function bar(data, view) {
    const item = (line) => {
      const box = element("input", { type: "checkbox", checked: !view.hides(line), onchange: () => view.hide(line, !box.checked) });
      return element("li", {}, element("label", {}, box, swatch(line), element("span", {}, Smoothcert.breakable(line.run)), element("span", { class: "badge" }, line.soundness)));
    };
    const slider = (norm) => {
      const { number, step } = data.grids[norm];
      if (!number) return null;
      const input = element("input", { type: "range", min: 0, max: number, step: 1, value: view.stop(norm), "aria-label": `${norm} radius`, oninput: () => view.move(norm, Number(input.value)) });
      const output = element("output", {});
      const show = () => { input.value = view.stop(norm); output.textContent = written(view, norm, data.grids); input.setAttribute("aria-valuetext", output.textContent); };
      view.on("radius", show); show();
      return element("label", { class: "radius", title: `in steps of ${step}` }, `${norm} radius`, input, output);
    };
    return element("div", { class: "sticky" }, element("ul", { class: "legend" }, data.lines.map(item)), element("div", { class: "sliders" }, normsOf(data.lines).map(slider)));
  }

  // A run at a glance; its share follows the cross-hair.
  function card(line, data, view) {
    const { headline } = line, big = element("b"), words = element("span"), quiet = element("p", { class: "faint" });
    const found = data.attacks.filter((row) => row.run === line.run && row.label === line.soundness), inside = found.find((row) => row.times === 1);
    const made = element("article", { class: "card", style: `border-top-color: ${colour(line)}`, "aria-label": line.title },
      element("h2", {}, swatch(line), Smoothcert.breakable(line.run), element("a", { class: "badge", href: "#labels" }, line.soundness)),
      element("div", { class: "numbers" },
        element("div", {}, element("b", {}, headline.acr), element("span", {}, "average certified radius")),
        element("div", {}, big, words)),
      quiet,
      element("p", { class: "faint" }, `${line.title.replace(`${line.run}: `, "").replace(/ \[\w+\]$/, "")}; ${grouped(headline.votes)} votes and ${headline.seconds} s per input`),
      inside && element("p", { class: inside.violated ? "wrong" : "faint" }, element("a", { href: "#attacks" }, "attacked"), `: ${inside.violated} of ${inside.tried} broken inside the radius`),
      headline.echoing > 0 && element("p", { class: "faint" }, `○ ${headline.echoing} of ${headline.certificates} certificates echo; without them the average is ${headline.quiet}`));
    const show = () => {
      const stop = view.stop(line.norm), curve = line.curves[view.kind], at = share(curve, stop);
      big.textContent = percent(at.y);
      words.textContent = `certified at ${line.norm} ${view.kind === "proxy" ? "proxy " : ""}${written(view, line.norm, data.grids)} (${banded(at).replace(/^.*\((.*)\)$/, "$1")})`;
      quiet.textContent = curve.quiet ? `without echoes: ${banded(share(curve.quiet, stop))}` : "";
      quiet.hidden = !curve.quiet;
      made.classList.toggle("off", view.hides(line));
    };
    view.on("radius", show); show();
    return made;
  }

  // Hover says what every run has at a radius; a press moves the cross-hair there.
  function crosshair(figure, norm, data, view) {
    const tip = element("div", { class: "hover", hidden: true });
    figure.append(tip);
    const stopAt = (event) => {
      const svg = figure.place.querySelector("svg"), box = svg && svg.getBoundingClientRect();
      if (!svg || !svg.scale) return null;
      const x = svg.scale("x").invert(((event.clientX - box.left) * svg.viewBox.baseVal.width) / box.width);
      return Math.max(0, Math.min(data.grids[norm].number, Math.round(x / data.grids[norm].step)));
    };
    function say(event) {
      const stop = stopAt(event), own = view.shown.filter((line) => line.norm === norm);
      if (stop == null || !own.length) return;
      const rows = own.map((line) => element("div", {}, swatch(line), ` ${lineTitle(line, data.lines)}: ${banded(share(line.curves[view.kind], stop))}`, line.curves[view.kind].quiet && `, without echoes ${percent(share(line.curves[view.kind].quiet, stop).y)}`));
      tip.replaceChildren(element("strong", {}, `${norm} ${view.kind === "proxy" ? "proxy radius" : "radius"} ${view.radiusAt(norm, stop).toFixed(decimals(data.grids[norm].step))}`), ...rows);
      tip.hidden = false;
      const box = figure.getBoundingClientRect(), left = event.clientX - box.left;
      tip.style.left = `${Math.max(0, Math.min(left + 14, box.width - tip.offsetWidth))}px`;
      tip.style.top = `${Math.max(0, event.clientY - box.top - tip.offsetHeight - 14)}px`;
    }
    if (!data.grids[norm].number) return figure;
    figure.place.classList.add("draggable");
    figure.place.addEventListener("pointerdown", (event) => { figure.place.setPointerCapture(event.pointerId); const stop = stopAt(event); if (stop != null) view.move(norm, stop); });
    figure.place.addEventListener("pointermove", (event) => { if (event.buttons) { const stop = stopAt(event); if (stop != null) view.move(norm, stop); } say(event); });
    figure.place.addEventListener("pointerleave", () => { tip.hidden = true; });
    return figure;
  }

  // The tables of the command, without the runs that are hidden; what all runs share is said once.
  function tables(data, view) {
    const place = element("div");
    const hiddenRuns = () => new Set(data.lines.filter(view.hides).map((line) => line.run).filter((run) => data.lines.every((line) => line.run !== run || view.hides(line))));
    function main(sheet) {
      const own = view.shown, keep = (row) => [row[0], ...own.map((line) => row[1 + line.position])];
      const marks = sheet.rows.map((row, at) => ({ cells: keep(row), end: sheet.ends.includes(at) }));
      const alike = (cells) => own.length > 1 && unique(cells.slice(1)).length === 1 && !/^(at radius|average|certificates)/.test(cells[0]);
      const cross = ["at the cross-hair", ...own.map((line) => `${view.kind === "proxy" ? "proxy " : ""}${written(view, line.norm, data.grids)}: ${banded(share(line.curves[view.kind], view.stop(line.norm)))}`)];
      const rows = marks.filter((one) => !alike(one.cells)), before = rows.findIndex((one) => one.cells[0].startsWith("at radius"));
      rows.splice(before < 0 ? rows.length : before, 0, { cells: cross });
      const shared = marks.filter((one) => alike(one.cells)).map((one) => `${one.cells[0]} ${one.cells[1]}`);
      return [table({ ...sheet, header: keep(sheet.header), rows: rows.map((one) => one.cells), ends: rows.flatMap((one, at) => (one.end ? [at] : [])) }),
        shared.length > 0 && element("p", { class: "faint shared" }, `The same for all: ${shared.join("; ")}.`)];
    }
    function show() {
      if (!view.shown.length) { place.replaceChildren(nothing("All runs are hidden.")); return; }
      const hidden = hiddenRuns(), [first, ...others] = data.tables;
      const rest = others.map((sheet) => ({ ...sheet, rows: sheet.rows.filter((row) => !row[0].split(/ ⊇ |, /).some((run) => hidden.has(run))), ends: [] })).filter((sheet) => sheet.rows.length);
      const opened = new Set([...place.querySelectorAll("details[open]")].map((one) => one.dataset.title));
      place.replaceChildren(...main(first).filter(Boolean), ...rest.map((sheet) => element("details", { "data-title": sheet.title, open: opened.has(sheet.title) }, element("summary", {}, sheet.title), table({ ...sheet, title: "" }))));
    }
    view.on("radius", show); show();
    return place;
  }

  // By true class, at the cross-hair too: radii rounded down reach its stops exactly when the radii do.
  function classes(data, view, classOf) {
    const place = element("div");
    function show() {
      const opened = new Set([...place.querySelectorAll("details[open]")].map((one) => one.dataset.title));
      place.replaceChildren(...data.classes.filter((one) => !view.hides(data.lines[one.line])).map((one) => {
        const line = data.lines[one.line], at = view.radius(line.norm), truths = column(line, "truth"), labels = column(line, "label"), radii = column(line, view.kind);
        const counted = (truth) => d3.sum(truths, (own, i) => own === truth && labels[i] === truth && radii[i] >= at);
        const rows = one.rows.map((row) => [classOf(Number(row[0])), ...row.slice(1), `${counted(Number(row[0]))} of ${row[1]}`]);
        return element("details", { "data-title": one.title, open: opened.has(one.title) }, element("summary", {}, one.title), table({ ...one, title: "", rows, header: [...one.header, `certified at ${written(view, line.norm, data.grids)}`] }));
      }));
    }
    view.on("radius", show); show();
    return place;
  }

  // The smallest and the largest regions, led from the input outwards along the worst direction that was found.
  function strips(data, view) {
    const place = element("div", { class: "strips" }), steps = ["0", "½", "1", "1½"];
    function show() {
      const shown = new Set(view.shown.map((line) => line.run));
      place.replaceChildren(...unique(data.strips.map((one) => one.run)).filter((run) => shown.has(run)).flatMap((run) => ["smallest", "largest"].map((which) => {
        const own = data.strips.filter((one) => one.run === run && one.which === which);
        return own.length > 0 && element("div", { class: "extreme" }, element("h3", {}, `${which} regions of `, Smoothcert.breakable(run)), own.map((one) => {
          const line = data.lines.find((each) => each.run === run && column(each, "index").includes(one.index)), at = column(line, "index").indexOf(one.index);
          const radius = column(line, "radius")[at];
          return element("figure", { class: radius >= view.radius(line.norm) ? "strip" : "strip short" },
            element("div", { class: "frames" }, one.frames.map((frame, k) => element("div", {}, element("img", { src: frame, alt: `input ${one.index} at ${steps[k]} of its radius` }), element("small", {}, one.frames.length > 1 ? `${steps[k]} r` : "")))),
            element("figcaption", {}, `input ${one.index}, r = ${fixed(radius, line.digits)}${radius >= view.radius(line.norm) ? "" : ", faint: below the cross-hair"}${one.words ? `: ${one.words}` : ""}`));
        }));
      })).filter(Boolean));
    }
    view.on("radius", show); show();
    return place;
  }

  function warnings(found) {
    const where = { labels: "what the labels mean", curves: "the curves", runs: "how they were made", inputs: "the inputs" };
    return found.length > 0 && element("div", { class: "warnings", role: "note" }, element("strong", {}, "Before you compare"),
      element("ul", {}, found.map((one) => element("li", {}, one.words, one.where && [" ", element("a", { href: `#${one.where}` }, `See ${where[one.where]}.`)]))));
  }

  function attacks(data, view, add) {
    const header = ["run", "label", "× radius", "tried", "broken", "may break by chance", "smallest margin"];
    const rows = data.attacks.map((row) => [row.run, row.label, String(row.times), String(row.tried), String(row.violated), row.allowance == null ? "–" : String(row.allowance), row.smallest_margin.toFixed(3)]);
    return section("attacks", "Under attack",
      element("p", {}, "Attacks searched every region for a point where the deployed classifier answers otherwise, and further out. Inside the radius (left of the rule) more than the stated number would mean that something is wrong; a frozen label promises nothing of the deployed classifier."),
      element("div", { class: "charts" }, add((now, width) => room(data.attacks, now, { width }), "The share of certificates that no attack broke."), table({ title: "What attacks found", header, rows })));
  }

  function report(data, place) {
    addEventListener("beforeprint", () => place.querySelectorAll(".appendix details, #runs details").forEach((one) => { one.open = true; }));
    const { lines } = data, facts = element("dl", { class: "about" }, data.about.map(({ name, value }) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
    const runs = section("runs", "How it was made", data.runs.map((run) => configuration(run, data.runs.length === 1)));
    if (!lines.length) {
      place.append(...[facts, warnings(data.warnings), nothing("There are no certificates yet in these runs. Certify some inputs into them, then make the report again."), runs].filter(Boolean));
      return;
    }
    const view = viewOf(data), classOf = (label) => (data.class_names[label] == null ? String(label) : `${label} ${data.class_names[label]}`);
    const drawn = [];
    const add = (draw, caption) => { const one = chart((width) => (view.shown.length ? draw(view.shown, width) : nothing("All runs are hidden.")), caption); drawn.push(one); return one; };
    view.on("all", () => drawn.forEach((one) => one.redraw()));
    const proxies = lines.some((line) => column(line, "radius").some((radius, i) => column(line, "proxy")[i] !== null && radius !== column(line, "proxy")[i]));
    const [kindLabel, kindSelect] = choice("against ", [["radius", "radius"], ["proxy", "proxy radius (same volume)"]], () => view.set("kind", kindSelect.value, ["against", kindSelect.value === "proxy" ? "proxy" : ""]), view.kind);
    const bandBox = element("input", { type: "checkbox", checked: view.bands, onchange: () => view.set("bands", bandBox.checked, ["bands", bandBox.checked ? "" : "no"]) });
    const curve = (norm) => {
      const made = chart((width) => {
        const own = view.shown.filter((line) => line.norm === norm);
        return own.length ? curves(own, { kind: view.kind, bands: view.bands, at: data.grids[norm].number ? view.radius(norm) : null, width }) : nothing("All runs of this norm are hidden.");
      }, normsOf(lines).length > 1 ? norm : null);
      view.on("radius", (moved) => { if (moved == null || moved === norm) made.redraw(); });
      return crosshair(made, norm, data, view);
    };
    const marked = lines.some((line) => line.curves.radius.marked.x.length > 0);
    const whole = lines.every((line) => line.labelled) ? "The share of inputs answered correctly and certified at a radius or beyond."
      : "The share of inputs answered and certified at a radius or beyond; where the truth is known, answered correctly.";
    const each = inputs(lines, data.pictures, { address: view.address, classOf, stopOf: (line) => view.radius(line.norm) });
    view.on("radius", () => each.show(view.shown));
    const led = data.strips.some((one) => one.frames.length > 1);
    const parts = [
      section("curves", "Certified accuracy",
        element("div", { class: "controls" }, proxies && kindLabel, element("label", {}, bandBox, "confidence bands")),
        element("div", { class: normsOf(lines).length > 1 ? "charts" : "" }, normsOf(lines).map(curve)),
        element("p", {}, whole, ` The band holds the true share with ${Math.round(100 * data.confidence)} % confidence at each radius, as far as these inputs are a fair sample. Drag the cross-hair, or the slider above: every number on this page that depends on a radius follows.`,
          marked && " Certificates that echo are hollow points: other inputs get the same label under the same noise at least half of the time, so they are true and say nothing of their input. The thick line leaves them out, the thin one counts them, as the tables do.")),
      section("tables", "Numbers", tables(data, view)),
      data.attacks.length > 0 && attacks(data, view, add),
      data.strips.length > 0 && section("regions", "The smallest and the largest regions",
        element("p", {}, led ? "Each input, led from where it is to one and a half times its radius r, along the direction that the attacks found worst. Up to r the answer is certified. Values are clipped for the eye. Faint: not certified at the cross-hair." : "The inputs themselves. To see what lies at the edge of their regions, let attacks search for it: ", !led && element("code", {}, "smoothcert attack RUN")), strips(data, view)),
      section("behind", "Behind the radii", element("div", { class: "charts" },
        add((now, width) => probabilities(now, { width }), "How sure the votes are: the bound on p_A over all inputs, abstentions too; every step to the right is ten times surer."),
        add((now, width) => histograms(now, { name: "votes", label: "votes per input", what: "inputs", width }), "Noisy copies classified per input; dashed: the median."),
        add((now, width) => histograms(now, { name: "sigma", label: "σ-factor (input units)", what: "certified inputs", width }), "The smallest scale of the noise, per certified input."),
        add((now, width) => histograms(now, { name: "gap", label: "gap (units of the noise)", what: "certified inputs", width }), "The radius in units of the noise; radius = σ-factor × gap."))),
      section("labels", "What the labels mean", element("dl", {}, Object.entries(data.labels).flatMap(([label, words]) => [element("dt", {}, label), element("dd", {}, words)])),
        element("p", { class: "faint" }, "Alpha is per certificate: among 10 000 at 0.001 expect up to 10 wrong ones. Certified numbers are rounded down. ",
          "Cite what you used: ", element("code", {}, "smoothcert cite RUN"), ".")),
      section("each", "Input by input", each),
      data.classes.length > 0 && section("classes", "Class by class", classes(data, view, classOf)),
      runs,
    ].filter(Boolean);
    parts.slice(parts.findIndex((one) => one.id === "each")).forEach((one) => one.classList.add("appendix"));
    const contents = element("nav", { class: "contents", "aria-label": "contents" }, parts.map((one) => element("a", { href: `#${one.id}` }, one.querySelector("h2").textContent)));
    place.append(...[facts, contents, bar(data, view), element("div", { class: "cards" }, lines.map((line) => card(line, data, view))), warnings(data.warnings), ...parts,
      element("footer", { class: "faint" }, `Made by smoothcert ${data.version}. Charts: Observable Plot and D3, ISC licence.`)].filter(Boolean));
    // A link inside the page keeps what the address says of it.
    const see = (id) => document.getElementById(id)?.scrollIntoView();
    place.addEventListener("click", (event) => {
      const link = event.target.closest('a[href^="#"]');
      if (!link) return;
      event.preventDefault();
      view.address.set("see", link.getAttribute("href").slice(1));
      see(link.getAttribute("href").slice(1));
    });
    if (view.address.get("see")) requestAnimationFrame(() => requestAnimationFrame(() => see(view.address.get("see"))));
  }

  Object.assign(Smoothcert, { report, outcome });
})();
