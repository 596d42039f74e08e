// What every page of smoothcert is made of. Each part takes data and returns an element; charts are drawn by Observable Plot.
// Certified numbers arrive rounded down to the digits they are shown with, so toFixed never rounds them up.
"use strict";
const Smoothcert = {};
(() => {
  // An element with attributes, listeners (on...) and children.
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value != null) made.setAttribute(name, value);
    }
    made.append(...children.flat(2).filter((child) => child != null && child !== false));
    return made;
  }

  // A line's column as an array; the same value for all inputs is sent once.
  const column = (line, name) =>
    Array.isArray(line.columns[name]) ? line.columns[name] : new Array(line.inputs).fill(line.columns[name]);
  // The colours of the runs are the style sheet's, since they are others on a dark page.
  const colour = (line) => `var(--run-${line.position % 8})`;
  const fixed = (value, digits) => (value == null ? "–" : value.toFixed(digits));
  const unique = (values) => [...new Set(values)];
  const grouped = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

  // A number as text with so many decimals, never above it.
  function floor(value, digits) {
    const text = value.toFixed(digits);
    return Number(text) > value ? (Number(text) - 10 ** -digits).toFixed(digits) : text;
  }

  // What a link shows: names and values behind the # of the address. A bare word there is a section.
  function address() {
    const values = new Map();
    const reread = () => {
      const text = location.hash.slice(1);
      values.clear();
      new URLSearchParams(text.includes("=") ? text : `see=${text}`).forEach((value, name) => values.set(name, value));
    };
    reread();
    const write = () => {
      const words = new URLSearchParams([...values].filter(([, value]) => value !== "" && value != null)).toString();
      history.replaceState(history.state, "", words ? `#${words}` : "#");
    };
    return { get: (name) => values.get(name) ?? "", set: (name, value) => { values.set(name, value); write(); }, reread };
  }

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
    const place = element("div", { class: "drawing" });
    const figure = element("figure", {}, place, caption && element("figcaption", {}, caption));
    let width = 0;
    figure.place = place;
    figure.redraw = () => width && place.replaceChildren(draw(width));
    new ResizeObserver(([entry]) => {
      const now = Math.floor(entry.contentRect.width);
      if (now && now !== width) { width = now; figure.redraw(); }
    }).observe(figure);
    return figure;
  }

  // One declaration per chart; what it is and what it says stand in it for those who do not see it.
  function frame(width, { name, summary, ...options }) {
    const drawn = Plot.plot({
      width, height: Math.round(Math.max(230, Math.min(400, width * 0.6))), marginLeft: 48, marginBottom: 40,
      style: { background: "transparent", fontSize: "12px" }, ariaLabel: name, ariaDescription: summary, ...options,
    });
    drawn.setAttribute("role", "img");
    drawn.querySelectorAll(":scope > g").forEach((part) => part.setAttribute("aria-hidden", "true"));  // name and summary stand for them
    return drawn;
  }
  const nothing = (words) => element("p", { class: "empty" }, words);
  const sorry = (problem) => element("p", { class: "problem", role: "alert" }, problem.message);

  // How a run's line looks, beside its name.
  function swatch(line) {
    const made = element("span", { class: "swatch" });
    made.innerHTML = '<svg width="34" height="10" aria-hidden="true"><line x1="1" x2="33" y1="5" y2="5" stroke-width="3"/></svg>';
    made.querySelector("line").setAttribute("stroke", colour(line));
    made.querySelector("line").setAttribute("stroke-dasharray", line.dash);
    return made;
  }

  // A run's name may break behind _ - and /, and a share with its band between the two, so that many runs stand side by side.
  const breakable = (text) => text.split(/(?<=[_/-])/).flatMap((part) => [part, element("wbr")]);
  const band = (text) => text.split(/ (?=\()/).flatMap((part) => [element("span", { class: "whole" }, part), " "]);
  const words = (text) => (text.includes(" (") ? band(text) : text.split(/(?<=[:,])/).flatMap((part) => [part, element("wbr")]));

  // A plain table as the command prints it; on a phone every row is a card.
  function table({ title, note, header, rows, ends = [] }) {
    const row = (cells, number) => element("tr", { class: ends.includes(number) && "end" },
      cells.map((text, at) => element(at ? "td" : "th", { "data-head": at ? header[at] : null, scope: at ? null : "row" }, at ? element("span", {}, words(text)) : words(text))));
    return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title || header[0] }, element("table", { class: "plain" },
      element("caption", {}, title, note && element("div", {}, note)),
      element("thead", {}, element("tr", {}, header.map((text) => element("th", { scope: "col" }, breakable(text))))),
      element("tbody", {}, rows.map(row))));
  }

  function choice(label, options, changed, chosen) {
    const select = element("select", { "aria-label": label.trim(), onchange: changed }, options.map(([value, text]) => element("option", { value }, text)));
    if (chosen != null && options.some(([value]) => String(value) === String(chosen))) select.value = chosen;
    return [element("label", {}, label, select), select];
  }

  // The exact command, the configuration and the versions of one run.
  function configuration(run, open) {
    const facts = { directory: run.directory, inputs: `${run.inputs} of ${run.subset || run.inputs}`, ...(run.shape && { shape: run.shape.join(" × ") }), ...(run.classes && { classes: String(run.classes) }), ...run.configuration };
    return element("details", { open }, element("summary", {}, run.name),
      run.command && [element("h3", {}, "Command"), element("code", { class: "block command" }, run.command)],
      element("h3", {}, "Configuration"),
      element("dl", {}, Object.entries(facts).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
      run.settings && [element("h3", {}, "run.toml"), element("pre", { tabindex: 0 }, run.settings)]);
  }

  const section = (id, title, ...parts) => element("section", { id, "aria-label": title }, element("h2", {}, title), ...parts);

  Object.assign(Smoothcert, { element, column, colour, fixed, unique, grouped, floor, address, theme, chart, frame, nothing, sorry, swatch, breakable, table, choice, configuration, section });
})();
