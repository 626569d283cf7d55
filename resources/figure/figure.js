"use strict";
// What a reader does with a figure: choose, single out, point, zoom, copy. The picture itself is
// Vega-Lite's; this page sets its parameters and data.
(() => {
  const page = JSON.parse(document.getElementById("page").textContent);
  const $ = (name) => document.getElementById(name);
  const make = (tag, text = "", attributes = {}) => {
    const element = Object.assign(document.createElement(tag), { textContent: text });
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const KEYS = ["readout", "condition", "grouping"];
  const COLUMNS = [
    "model", "dataset", "site", "position", "condition", "grouping", "anchor", "layer",
    "n", "share", "delta_p", "ci_low", "ci_high", "probe_auc",
    "flip_share", "flip_low", "flip_high", "n_paired", "signal",
  ];
  const state = { choice: page.choices[0], singled: new Set(), at: -1, values: {}, whole: null };
  let view = null;
  let rows = {};

  // CSV with quotes, as rows of text
  function cells(text) {
    const lines = [];
    const piece = /("(?:[^"]|"")*"|[^,\n]*)(,|\n|$)/g;
    for (let line = [], found; piece.lastIndex < text.length && (found = piece.exec(text)); ) {
      const quoted = found[1].startsWith('"');
      line.push(quoted ? found[1].slice(1, -1).replaceAll('""', '"') : found[1]);
      if (found[2] !== ",") { lines.push(line); line = []; }
    }
    return lines;
  }

  // Columns of numbers begin with #, of truth with ?; a blank number is null, a blank text that
  // of the row above, \N no text.
  function unpacked(text) {
    const [heads, ...lines] = cells(text);
    const above = {};
    return lines.map((line) => {
      const row = {};
      heads.forEach((head, i) => {
        const cell = line[i] ?? "";
        if (head[0] === "#") row[head.slice(1)] = cell === "" ? null : Number(cell);
        else if (head[0] === "?") row[head.slice(1)] = cell === "1";
        else {
          if (cell !== "") above[head] = cell === "\\N" ? null : cell.replace(/^\\/, "");
          row[head] = above[head];
        }
      });
      return row;
    });
  }

  const within = (value, [low, high]) => value >= low - 1e-9 && value <= high + 1e-9;

  function specification() {
    const spec = structuredClone(page.spec);
    for (const one of spec.params) if (one.name in state.values) one.value = state.values[one.name];
    spec.datasets = { ...spec.datasets, ...rows };
    return spec;
  }

  // Title and legend are the page's own: they wrap, and a key can reach them.
  function bare(node) {
    if (Array.isArray(node)) node.forEach(bare);
    else if (node && typeof node === "object") {
      if ("legend" in node && ("scale" in node || "field" in node)) node.legend = null;
      Object.entries(node).forEach(([name, value]) => name !== "datasets" && bare(value));
    }
    return node;
  }

  const rectangles = (node) => ("layer" in node && "width" in node ? [node]
    : ["concat", "vconcat", "hconcat"].flatMap((key) => (node[key] ?? []).flatMap(rectangles)));

  // A narrow window takes fewer panels a row, in every grid of them: a part of what there were,
  // so that rows stay what they are. Each panel that then begins a row needs the labels and
  // headings that the first of a row has.
  function stacked(node) {
    const { concat = [], columns = concat.length } = node;
    const across = fitting(columns);
    if (across < columns) {
      const columnOf = concat.map(rectangles);
      columnOf.forEach((column, i) => i % across || column.forEach((panel, k) => label(panel, columnOf[0][k])));
      node.columns = across;
    }
    concat.forEach(stacked);
  }

  const grids = ({ concat = [], columns = concat.length }) =>
    (concat.length ? [columns, ...concat.flatMap(grids)] : []);

  function label(panel, first) {
    const axes = (one) => one.layer.map((view) => view.encoding?.y).filter(Boolean);
    const blank = (text) => [text].flat().every((line) => typeof line === "string" && !line.trim());
    const named = first && axes(first).find((y) => y.axis)?.axis;
    for (const y of named ? axes(panel) : []) {
      const { labelExpr, values, tickCount } = y.axis ?? {};
      if (labelExpr === "' '") y.axis = { ...named, values, tickCount };
      else if (y.title === null) y.title = named.title;
    }
    if (panel.title && blank(panel.title.text)) panel.title.text = first.title.text;
  }

  async function draw() {
    rows = {};
    for (const [name, pieces] of Object.entries(state.choice.rows)) {
      rows[name] = pieces.flatMap((k) => unpacked(page.pieces[k]));
    }
    // what was zoomed in on stays so, as far as the new axes hold it
    const near = state.whole ? spans().filter((name) => !atHome(name)) : [];
    const kept = near.map((name) => [name, ...state.values[name]]);
    state.whole = { ...page.values, ...state.choice.values };
    state.values = structuredClone(home());
    kept.forEach((one) => span(...one));
    settle();
    const spec = bare(specification());
    delete spec.title;
    stacked(spec);
    view?.finalize();
    view = (await vegaEmbed("#figure", spec, OPTIONS)).view;
    const svg = document.querySelector("#figure svg.marks");
    svg.style.maxWidth = `${1.5 * svg.viewBox.baseVal.width}px`;
    say();
  }

  const OPTIONS = { mode: "vega-lite", renderer: "svg", actions: false, ast: true };
  const home = () => state.whole;
  const SMALLEST = 0.85;  // of their size, before fewer panels stand side by side
  const fitting = (columns) => {
    const most = Math.max(1, columns * $("figure").clientWidth / (SMALLEST * page.width));
    return Array.from({ length: columns }, (_, i) => columns - i).find((n) => columns % n === 0 && n <= most);
  };

  // Parameters that changed go to the picture together.
  let waiting = false;
  function refresh() {
    if (waiting) return;
    waiting = true;
    setTimeout(async () => {
      waiting = false;
      settle();
      for (const [name, value] of Object.entries(state.values)) view.signal(name, value);
      await view.runAsync();
    });
  }

  // What follows from the ends of the axes and from the reader's choices.
  function settle() {
    for (const name of spans()) state.values[`${name}t`] = ticks(name);
    const zoomed = spans().some((name) => !atHome(name));
    Object.assign(state.values, { zoomed, singled: [...state.singled], at: state.at });
  }

  const atHome = (name) => state.values[name].every((end, i) => end === home()[name][i]);

  function ticks(name) {
    if (atHome(name)) return home()[`${name}t`];
    const [low, high] = state.values[name];
    const rough = Math.max((high - low) / 5, page.steps[name]);
    const ten = 10 ** Math.floor(Math.log10(rough) + 1e-9);
    const step = [1, 2, 5, 10].map((k) => k * ten).find((one) => one >= rough - 1e-9);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    return Array.from({ length: Math.max(count, 0) }, (_, i) => +((first + i) * step).toFixed(6));
  }

  // A span kept inside the whole one, and no smaller than three steps of the axis.
  function span(name, low, high) {
    const [least, most] = home()[name];
    const size = Math.min(Math.max(high - low, 3 * page.steps[name]), most - least);
    const start = Math.min(Math.max(low + (high - low - size) / 2, least), most - size);
    state.values[name] = size >= most - least ? [least, most] : [start, start + size];
  }

  function zoom(name, factor, part = 0.5) {
    const [low, high] = state.values[name];
    const fixed = low + part * (high - low);
    span(name, fixed - factor * (fixed - low), fixed + factor * (high - fixed));
    refresh();
  }

  function move(name, from, part) {
    const by = part * (from[1] - from[0]);
    span(name, from[0] + by, from[1] + by);
    refresh();
  }

  const axes = (name) => [...new Set(page.panels.map((panel) => panel[name]).filter(Boolean))];
  const layered = () => axes("x");
  const spans = () => [...layered(), ...axes("y")];

  function reset() {
    state.singled.clear();
    state.at = -1;
    Object.assign(state.values, structuredClone(home()));
    refresh();
    say();
  }

  // The panel under the pointer, and where in it, 0 to 1 from the left and from the bottom.
  // Half of a mark on a panel's edge lies outside.
  function under(event) {
    const EDGE = 6;  // pixels
    const inside = (value, size) =>
      within(value, [-EDGE / size, 1 + EDGE / size]) ? Math.max(0, Math.min(1, value)) : null;
    for (const [p, panel] of page.panels.entries()) {
      const area = document.querySelector(`#figure .panel${p}_group path.background`);
      const box = area?.getBoundingClientRect();
      if (!box || !box.width) continue;
      const x = inside((event.clientX - box.left) / box.width, box.width);
      const y = inside((box.bottom - event.clientY) / box.height, box.height);
      if (x !== null && y !== null) return { ...panel, at: { x, y }, box };
    }
    return null;
  }

  function say() {
    const { choice, singled, at } = state;
    $("title").textContent = choice.title;
    $("caption").replaceChildren(...choice.caption.map((line) => make("p", line)));
    for (const key of KEYS) $(key).value = choice[key];
    $("legend").classList.toggle("some", singled.size > 0);
    for (const button of $("legend").children) {
      button.setAttribute("aria-pressed", String(singled.has(button.dataset.series)));
    }
    $("here").textContent = at < 0 ? "none" : String(at);
    $("layer").setAttribute("aria-valuetext", at < 0 ? "none" : `layer ${at}`);
    if (at >= 0) $("layer").value = at;
    values();
  }

  // What all curves are at the chosen layer: a line a series, a column a panel.
  function values() {
    const shown = page.panels
      .map((panel, p) => rows[`rows${p}_0`] ?? [])
      .filter((panel) => panel.some((row) => "delta_p" in row));
    $("values").hidden = state.at < 0 || !shown.length;
    if ($("values").hidden) return;
    const table = make("table");
    table.append(make("caption", `ΔP [interval], n (share) and probe AUC at layer ${state.at}`));
    const head = table.createTHead().insertRow();
    head.append(make("th"), ...shown.map((panel) => make("th", panel[0].model, { scope: "col" })));
    for (const { name } of page.legend) {
      if (state.singled.size && !state.singled.has(name)) continue;
      const line = table.insertRow();
      line.append(make("th", name, { scope: "row" }));
      for (const panel of shown) line.insertCell().textContent = said(panel, name);
    }
    $("values").replaceChildren(table);
  }

  function said(panel, name) {
    const row = panel.find((one) => one.series === name && one.layer === state.at && !one.edge);
    if (!row) return "–";
    const show = (value, digits = 1) =>
      value === null ? "–" : value.toFixed(digits).replace("-", "−");
    const ends = row.ci_low === null ? "" : ` [${show(row.ci_low)}, ${show(row.ci_high)}]`;
    const size = `n ${row.n ?? "–"} (${show(row.share)} %)`;
    const grey = row.signal ? "" : ", no signal";
    return `${show(row.delta_p)}${ends}, ${size}, AUC ${show(row.probe_auc, 3)}${grey}`;
  }

  function point(layer) {
    if (layer === state.at) return;
    state.at = layer;
    refresh();
    say();
  }

  // The rows behind the view: its choice, the series singled out, the layers zoomed in on.
  function visible() {
    return page.panels.flatMap((panel, p) =>
      Object.keys(rows).filter((name) => name.startsWith(`rows${p}_`)).flatMap((name) =>
        rows[name].filter((row) => !row.edge &&
          (!state.singled.size || state.singled.has(row.series)) &&
          (!panel.x || !("layer" in row) || within(row.layer, state.values[panel.x])))));
  }

  function csv() {
    const shown = visible();
    const { readout, condition, grouping } = state.choice;
    if (!readout) {
      const names = [...new Set(shown.flatMap(Object.keys))];
      const own = ["mark", "marker", "at", "run", "edge", "dotted"];
      return table(names.filter((name) => !own.includes(name)), shown);
    }
    const [site, position] = readout.split("/");
    const part = (percent) => (percent == null ? null : +(percent / 100).toFixed(6));
    return table(COLUMNS, shown.map((row) => ({
      condition, ...row, site, position, grouping,
      anchor: row.anchor === "all" ? "all" : row.anchor[0],
      share: part(row.share),
      n: "flips" in row ? null : row.n,
      n_paired: "flips" in row ? row.n : null,
      flip_share: part(row.flips), flip_low: part(row.low), flip_high: part(row.high),
    })));
  }

  // Text that a spreadsheet would run as a formula gets an apostrophe.
  function table(names, lines) {
    const cell = (value) => {
      if (value === null || value === undefined) return "";
      const text = typeof value === "string" && /^'*[=+\-@\t]/.test(value) ? `'${value}` : `${value}`;
      return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [names, ...lines.map((row) => names.map((name) => row[name]))]
      .map((line) => `${line.map(cell).join(",")}\n`).join("");
  }

  async function copy() {
    const text = csv();
    $("numbers").value = text;
    $("numbers").hidden = false;
    $("numbers").select();
    let done = false;
    try { await navigator.clipboard.writeText(text); done = true; } catch { /* not allowed here */ }
    done ||= document.execCommand("copy");
    const count = text.split("\n").length - 2;
    $("status").textContent = done ? `Copied ${count} rows.` : "Press Ctrl+C to copy the rows below.";
    if (done) { $("numbers").hidden = true; $("copy").focus(); }
  }

  function wrapped(text, most) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.length > most && lines.at(-1)) lines.push(word);
      else lines[lines.length - 1] = longer;
    }
    return lines;
  }

  // The picture with the title and legend that the page sets beside it.
  async function save() {
    const spec = specification();
    const { title, caption, readout } = state.choice;
    if (readout) {
      spec.title.text = wrapped(title, page.width / (0.6 * spec.title.fontSize));
      const most = page.width / (0.5 * spec.title.subtitleFontSize);
      spec.title.subtitle = caption.flatMap((line) => wrapped(line, most));
    }
    const aside = await vegaEmbed(make("div"), spec, OPTIONS);
    const svg = await aside.view.toSVG();
    aside.view.finalize();
    const href = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
    make("a", "", { href, download: "figure.svg" }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
    $("status").textContent = "Saved as figure.svg.";
  }

  function choose(key) {
    const wanted = Object.fromEntries(KEYS.map((name) => [name, $(name).value]));
    const near = (choice) => KEYS.filter((name) => choice[name] === wanted[name]).length;
    const open = page.choices.filter((choice) => choice[key] === wanted[key]);
    state.choice = open.reduce((best, one) => (near(one) > near(best) ? one : best));
    const exact = near(state.choice) === KEYS.length;
    $("status").textContent = exact ? "" : "That combination is not on this page; the nearest is shown.";
    return draw();
  }

  function fill() {
    for (const key of KEYS) {
      const names = [...new Set(page.choices.map((choice) => choice[key]))];
      $(key).replaceChildren(...names.map((name) => make("option", page.names[name] ?? name, { value: name })));
      $(key).parentElement.hidden = names.length < 2;
      $(key).addEventListener("change", () => choose(key));
    }
    $("choices").hidden = page.choices.length < 2;
    $("cursor").hidden = !layered().length;
    $("layer").max = Math.max(0, ...layered().map((name) => page.values[name][1]));
    $("layers").hidden = !layered().length;
    $("heights").hidden = !axes("y").length;
    if (!layered().length) $("scrolling").textContent = "Scroll over a panel to zoom in on values; drag to move.";
    $("legend").classList.toggle("four", page.legend.length % 4 === 0);
    $("legend").replaceChildren(...page.legend.map(entry));
  }

  function entry({ name, colour, dash, path, size }) {
    const button = make("button", "", { type: "button", "aria-pressed": "false", "data-series": name });
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const symbol = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const look = {
      d: path, fill: colour, stroke: colour, "stroke-width": 1.8, "stroke-dasharray": dash,
      transform: `scale(${size})`, "vector-effect": "non-scaling-stroke",
    };
    for (const [key, value] of Object.entries(look)) symbol.setAttribute(key, value);
    svg.setAttribute("viewBox", "-17 -8 34 16");
    svg.setAttribute("aria-hidden", "true");
    svg.append(symbol);
    button.append(svg, name);
    button.addEventListener("click", (event) => single(name, event.shiftKey || event.ctrlKey || event.metaKey));
    return button;
  }

  function single(name, several) {
    const only = state.singled.has(name) && (several || state.singled.size === 1);
    if (!several) state.singled.clear();
    if (only) state.singled.delete(name);
    else state.singled.add(name);
    refresh();
    say();
  }

  function listen() {
    const figure = $("figure");
    let drag = null;
    figure.addEventListener("wheel", (event) => {
      const here = under(event);
      const name = here && (event.shiftKey || !here.x ? here.y : here.x);
      const by = event.deltaY || event.deltaX;
      if (!name || (by > 0 && atHome(name))) return;
      event.preventDefault();
      zoom(name, Math.exp(Math.max(-0.4, Math.min(0.4, 0.002 * by))), event.shiftKey ? here.at.y : here.at.x);
    }, { passive: false });
    figure.addEventListener("pointerdown", (event) => {
      const here = event.button === 0 && under(event);
      if (!here) return;
      drag = { here, x: event.clientX, y: event.clientY, from: structuredClone(state.values) };
    });
    addEventListener("pointerup", () => { drag = null; });
    addEventListener("pointermove", (event) => {
      if (drag) {
        const { here, from, x, y } = drag;
        if (here.x) move(here.x, from[here.x], (x - event.clientX) / here.box.width);
        if (here.y) move(here.y, from[here.y], (event.clientY - y) / here.box.height);
        return;
      }
      const here = figure.contains(event.target) && under(event);
      if (!here?.x) return;
      const [low, high] = state.values[here.x];
      point(Math.round(low + here.at.x * (high - low)));
    });
    figure.addEventListener("dblclick", reset);
    addEventListener("keydown", (event) => { if (event.key === "Escape") reset(); });
    // the slider rests on the first layer, which can be chosen though it does not move then
    const chosen = () => point(Number($("layer").value));
    $("layer").addEventListener("input", chosen);
    $("layer").addEventListener("click", chosen);
    $("layer").addEventListener("keyup", (event) => { if (/^(Arrow|Home|End)/.test(event.key)) chosen(); });
    $("choices").addEventListener("submit", (event) => event.preventDefault());
    const press = (id, channel, act) =>
      $(id).addEventListener("click", () => axes(channel).forEach(act));
    const by = (part) => (name) => move(name, state.values[name], part);
    for (const [channel, closer, wider, back, on] of [
      ["x", "zoom-in", "zoom-out", "earlier", "later"],
      ["y", "taller", "flatter", "lower", "higher"],
    ]) {
      press(closer, channel, (name) => zoom(name, 0.7));
      press(wider, channel, (name) => zoom(name, 1 / 0.7));
      press(back, channel, by(-0.25));
      press(on, channel, by(0.25));
    }
    $("reset").addEventListener("click", reset);
    $("copy").addEventListener("click", copy);
    $("save").addEventListener("click", save);
    const layout = () => grids(page.spec).map(fitting).join();
    let was = layout();
    addEventListener("resize", () => { if (was !== layout()) { was = layout(); draw(); } });
  }

  fill();
  $("status").textContent = page.note;
  window.drawn = draw().then(listen).catch((error) => {
    $("status").textContent = `The picture could not be drawn: ${error}`;
    throw error;
  });
})();
