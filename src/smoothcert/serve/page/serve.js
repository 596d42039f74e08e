// The page of a server: an input is drawn, dropped or typed, certified while one looks on, and moved until the promise ends.
function askForCertificates(data, place) {
  const { element, section, choice, chart, frame, nothing, sorry, floor, grouped } = Smoothcert;
  const token = element("input", { type: "password", autocomplete: "off", size: 24, onchange: () => begin() });
  const content = element("div"), pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

  // A reply that was not refused; what is refused is an error with the server's own words.
  async function ask(where, input, accept = "application/json") {
    const headers = { Accept: accept, ...(token.value && { Authorization: `Bearer ${token.value}` }), ...(input && { "Content-Type": "application/json" }) };
    let reply;
    try { reply = await fetch(where, { headers, ...(input && { method: "POST", body: JSON.stringify({ input: Array.from(input) }) }) }); } catch { throw new Error("The server does not answer; is it still running?"); }
    if (reply.ok) return reply;
    const found = await reply.json().catch(() => ({})), wait = reply.headers.get("Retry-After");
    throw Object.assign(new Error(`${found.error || `The server refused (${reply.status})`}${wait ? `; again in ${wait} s` : ""}`), { status: reply.status, wait });
  }

  // The events of a reply, as they arrive.
  async function* events(reply) {
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = "", part; !(part = await reader.read()).done;) {
      const whole = (rest + part.value).split("\n\n");
      rest = whole.pop();
      for (const one of whole) {
        const found = JSON.parse(one.match(/^data: (.*)$/m)[1]);
        if (found.error) throw new Error(found.error);
        yield found;
      }
    }
  }

  async function begin() {
    content.replaceChildren(nothing(data.token && !token.value ? "This server needs a token; it is kept in this page only, until it is closed." : "Asking the server what it is…"));
    if (data.token && !token.value) return;
    try { content.replaceChildren(...ready(await (await ask("status")).json())); } catch (problem) {
      content.replaceChildren(sorry(problem));
      if (problem.status === 503) { await pause(Number(problem.wait) || 1); begin(); }
    }
  }

  function ready(status) {
    const { shape } = status, [channels, height, width] = shape, size = shape.reduce((a, b) => a * b, 1);
    const picture = shape.length === 3 && [1, 3].includes(channels);
    const levels = Number((status.grid.match(/^grid 1\/(\d+)/) || [])[1]) || null;
    const [low, high] = (status.grid.match(/clipped to (\S+)\.\.(\S+)$/) || []).slice(1).map(Number);
    const box = low === undefined ? (picture ? [0, 1] : [-Infinity, Infinity]) : [low, high];
    // An input that the server takes: inside the box, on the grid, or in float32.
    const allowed = (value) => { const inside = Math.min(box[1], Math.max(box[0], value)); return levels ? Math.round(inside * levels) / levels : Math.fround(inside); };
    const classOf = (label) => (label == null ? "nothing for sure" : status.class_names[label] == null ? `class ${label}` : `class ${label}, ${status.class_names[label]}`);
    const sizeOf = (change, norm) => (norm === Infinity ? change.reduce((most, one) => Math.max(most, Math.abs(one)), 0) : change.reduce((sum, one) => sum + Math.abs(one) ** norm, 0) ** (1 / norm));
    const source = picture ? easel() : typed();
    const spent = element("p", { class: "faint" }), told = element("div", {}, nothing("What is certain about the input, once it is certified.")), press = element("button", { type: "button", class: "main", onclick: certify }, "certify");

    function show(canvas, values) {
      const image = new ImageData(width, height), area = width * height;
      for (let at = 0; at < area; at++) for (let k = 0; k < 4; k++) image.data[4 * at + k] = k === 3 ? 255 : Math.round(255 * values[(k % channels) * area + at]);
      canvas.getContext("2d").putImageData(image, 0, 0);
    }

    // A canvas of the input's shape: drawn on with a brush, or filled by a file.
    function easel() {
      const values = new Float64Array(size).fill(allowed(0)), area = width * height, reach = Math.max(width, height) / 18;
      const canvas = element("canvas", { width, height, class: "pixels draw", role: "img", "aria-label": "draw an input" });
      const colour = element("input", { type: "color", value: "#ffffff" }), problem = element("div");
      const chosen = () => [1, 3, 5].slice(0, channels).map((at) => parseInt(colour.value.slice(at, at + 2), 16) / 255);
      let last = null;
      function paint(event) {
        if (!event.buttons) return;
        const sides = canvas.getBoundingClientRect(), now = [((event.clientX - sides.left) * width) / sides.width, ((event.clientY - sides.top) * height) / sides.height], from = last || now;
        const steps = 1 + Math.ceil(3 * Math.hypot(now[0] - from[0], now[1] - from[1])), ink = chosen();
        for (let step = 0; step <= steps; step++) {
          const [x, y] = [0, 1].map((k) => from[k] + ((now[k] - from[k]) * step) / steps);
          for (let at = 0; at < area; at++) if (Math.hypot((at % width) + 0.5 - x, Math.floor(at / width) + 0.5 - y) <= Math.max(0.8, reach)) ink.forEach((value, k) => { values[k * area + at] = allowed(value); });
        }
        last = now;
        show(canvas, values);
      }
      canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); last = null; paint(event); });
      canvas.addEventListener("pointermove", paint);
      async function take(file) {
        problem.replaceChildren();
        try {
          const image = await createImageBitmap(file), drawn = element("canvas", { width, height }).getContext("2d");
          drawn.drawImage(image, 0, 0, width, height);
          const found = drawn.getImageData(0, 0, width, height).data;
          // One channel: luma, with the weights that the server's own reading of pictures has.
          for (let at = 0; at < area; at++) {
            const [r, g, b] = found.slice(4 * at, 4 * at + 3), own = channels === 3 ? [r, g, b] : [Math.round(0.299 * r + 0.587 * g + 0.114 * b)];
            own.forEach((value, k) => { values[k * area + at] = allowed(value / 255); });
          }
          show(canvas, values);
          canvas.dataset.file = file.name;
        } catch { problem.replaceChildren(sorry(new Error("This file cannot be read as a picture; take a PNG or JPEG."))); }
      }
      const over = (event) => { event.preventDefault(); canvas.classList.toggle("over", event.type === "dragover"); if (event.type === "drop" && event.dataTransfer.files[0]) take(event.dataTransfer.files[0]); };
      document.ondragover = document.ondragleave = document.ondrop = over; // anywhere: beside the canvas a browser would leave the page for the file
      const file = element("input", { type: "file", accept: "image/png,image/jpeg", "aria-label": "a picture", onchange: () => file.files[0] && take(file.files[0]) });
      const clear = element("button", { type: "button", onclick: () => { values.fill(allowed(0)); show(canvas, values); } }, "clear");
      show(canvas, values);
      return { values: () => values.slice(), part: [element("p", { class: "faint" }, `Draw, or drop a PNG or JPEG on the page; it is brought to ${width} × ${height} pixels.`), canvas,
        element("div", { class: "controls" }, element("label", {}, "brush ", colour), clear), file, problem] };
    }

    // For inputs that are no picture.
    function typed() {
      const field = element("textarea", { "aria-label": "numbers", spellcheck: "false" });
      field.value = new Array(size).fill(0).join(" ");
      const values = () => {
        const found = field.value.split(/[\s,;[\]]+/).filter(Boolean).map(Number);
        if (found.length !== size || !found.every(Number.isFinite)) throw new Error(`There are ${found.length} words; give ${size} numbers, with spaces or commas between.`);
        return Float64Array.from(found, levels ? (one) => one : Math.fround);
      };
      return { values, part: [element("p", { class: "faint" }, `${size} numbers, in the shape ${shape.join(" × ")}.`), field] };
    }

    async function certify() {
      press.disabled = true;
      const looks = [], facts = element("dl", { class: "answer" }), line = chart((room) => growing(looks, room));
      try {
        const center = source.values();
        told.replaceChildren(element("p", { class: "faint", role: "status" }, "Votes are cast…"), facts);
        for await (const answer of events(await ask("certify", center, "text/event-stream"))) {
          looks.push(answer);
          facts.replaceChildren(...factsOf(answer));
          if (looks.length === 2) told.append(line);
          line.redraw();
        }
        const last = looks.at(-1);
        if (!last || last.provisional) throw new Error("The server broke off before its answer was settled; nothing is promised.");
        told.firstChild.textContent = last.source === "memory" ? "A hit: a promise that was made before holds this input. No vote was cast." : `Settled, after ${grouped(last.votes)} votes.`;
        told.append(mover(center, last));
        spend(await (await ask("status")).json());
      } catch (problem) { told.replaceChildren(sorry(problem)); }
      press.disabled = false;
    }

    function factsOf(answer) {
      const rows = { answer: answer.label == null ? (answer.provisional ? "not yet" : "abstains: the votes do not prove a class") : classOf(answer.label), radius: `${floor(answer.radius, 4)}${answer.norm && ` (${Number(answer.norm) || answer.norm === "inf" ? `l${answer.norm}` : answer.norm})`}${answer.provisional ? ", provisional" : ""}`,
        soundness: `${answer.soundness}: ${data.meanings[answer.soundness] || ""}`, votes: `${grouped(answer.votes)}; wrong with probability ${answer.alpha} at most`,
        source: answer.source === "memory" ? "memory: a hit" : "votes for this very input", theorem: answer.theorem || "–", promise: answer.id || "none yet" };
      return Object.entries(rows).flatMap(([name, words]) => [element("dt", {}, name), element("dd", { "data-name": name }, words)]);
    }

    const growing = (looks, room) => frame(room, {
      name: "The radius as votes arrive", summary: `radius ${floor(looks.at(-1).radius, 4)} after ${looks.at(-1).votes} votes`, height: 180, marginTop: 24,
      x: { label: "votes", labelAnchor: "center", labelArrow: "none", ticks: 5 }, y: { label: "radius", domain: [0, looks.at(-1).radius || 1], nice: true, grid: true, ticks: 4, labelArrow: "none" },
      marks: [Plot.ruleY([0], { strokeOpacity: 0.4 }), Plot.lineY(looks, { x: "votes", y: "radius", stroke: "var(--run-0)", strokeWidth: 2, curve: "step-after" }), Plot.dot(looks, { x: "votes", y: "radius", r: 3, fill: "var(--run-0)" })],
    });

    // From the certified input along a direction; the distance is that of the point that is asked about.
    function mover(center, answer) {
      const norm = answer.norm === "inf" ? Infinity : Number(answer.norm || NaN);
      if (answer.label == null || !(answer.radius > 0) || !(norm >= 1)) return element("p", { class: "faint" }, "There is no ball around this input to move in.");
      const verdict = element("p", { class: "verdict", role: "status" }), canvas = picture && element("canvas", { width, height, class: "pixels moved", role: "img", "aria-label": "the moved input" });
      const far = element("input", { type: "range", min: 0, max: 3, step: 0.05, value: 0, list: "end", "aria-label": "how far", oninput: move, onchange: predict });
      const [label, kind] = choice("towards ", [["random", "a random change"], ["own", picture ? "what is drawn now" : "the numbers above"]], () => { direction = null; move(); predict(); });
      // At random, but into the box: a change that leaves it would be cut off.
      const inward = (value) => (box[1] - value > value - box[0] ? 1 : -1) * (Number.isFinite(box[0]) || Math.random() < 0.5 ? 1 : -1);
      const random = () => center.map((value) => inward(value) * (norm === Infinity ? 1 : Math.abs(d3.randomNormal()())));
      let direction = null, at = center, ticket = 0;
      function move() {
        try {
          direction ||= kind.value === "random" ? random() : source.values().map((value, k) => value - center[k]);
          const length = sizeOf(direction, norm), by = length ? (Number(far.value) * answer.radius) / length : 0;
          at = center.map((value, k) => (by * direction[k] ? allowed(value + by * direction[k]) : value));
          // A rounding error must not put a point inside that is not.
          const distance = sizeOf(at.map((value, k) => value - center[k]), norm), inside = distance * (1 + 1e-9) <= answer.radius;
          verdict.dataset.inside = inside;
          verdict.textContent = length ? `${inside ? "Inside" : "Beyond the radius"}: at distance ${distance.toFixed(4)} of ${floor(answer.radius, 4)}.` : "Nothing was changed since it was certified: draw on, then choose this again.";
          if (canvas) show(canvas, at);
        } catch (problem) { verdict.textContent = problem.message; }
        ticket++;
      }
      async function predict() {
        const mine = ++ticket, before = verdict.textContent;
        let words;
        try {
          const found = await (await ask("predict", at)).json();
          const kept = found.label === answer.label ? "the same answer" : found.label == null ? "it abstains" : "another answer";
          words = `The server says ${classOf(found.label)}, ${found.source === "memory" ? "from its memory" : "from new votes"}: ${kept}.`;
        } catch (problem) { words = problem.message; }
        if (mine === ticket) verdict.textContent = `${before} ${words}`;
      }
      move();
      return section("move", "Move it", element("div", { class: "controls" }, label, far), element("datalist", { id: "end" }, element("option", { value: 1, label: "the radius" })),
        element("p", { class: "faint" }, "At the mark the radius ends."), verdict, canvas);
    }

    function spend(now) {
      spent.textContent = `${now.model}: ${now.noise}, ${now.grid}. ${grouped(now.promises)} promises and ${grouped(now.tries)} tries without one so far; on average at most ${Number(now.expected_wrong.toPrecision(2))} of them are wrong.`;
    }

    spend(status);
    return [spent, element("div", { class: "split" }, section("input", "Input", source.part, element("div", { class: "controls" }, press)), section("certificate", "Certificate", told))];
  }

  place.append(...(data.token ? [element("label", { class: "controls" }, "token ", token)] : []), content);
  begin();
}
