"use strict";
// The explorer of single samples. All text is set as text: nothing a model wrote becomes markup.
(() => {
  const PAGE = 8;
  const SVG = "http://www.w3.org/2000/svg";
  const explorer = document.getElementById("explorer");
  const chosen = document.getElementById("cell");
  if (!explorer || !chosen || !chosen.options.length) return;

  const fill = (element, about, inside) => {
    for (const [key, value] of Object.entries(about)) element.setAttribute(key, value);
    element.append(...inside);
    return element;
  };
  const make = (name, about = {}, ...inside) => fill(document.createElement(name), about, inside);
  const draw = (name, about = {}, ...inside) =>
    fill(document.createElementNS(SVG, name), about, inside);
  const minus = (number, digits) => number.toFixed(digits).replace("-", "−");

  const KINDS = {
    truism: "the answer is a word that is always right: the word alone tells",
    myth: "the answer is a word that is never right: the word alone tells",
    surprise: "a word that is seldom right is right here: only the question tells",
    tempting: "a word that is mostly right is wrong here: only the question tells",
    redundant: "word and question agree: either may tell",
    neutral: "the word tells nothing: only the question can",
    unseen: "a fact that was never trained",
  };

  const cells = [];
  const cell = () => {
    const i = Number(chosen.value);
    cells[i] ??= JSON.parse(document.getElementById(`samples-${i}`).textContent);
    return cells[i];
  };

  // 100 · (p(ĉ) − p_clean(ĉ)), ĉ the class predicted on the clean pass; p in thousandths.
  const deltaP = (sample, layer, moved) =>
    ((sample.c[layer] > 500 ? 1 : -1) * (moved[layer] - sample.c[layer])) / 10;
  const flips = (sample, layer) => sample.c[layer] > 500 !== sample.x[layer] > 500;

  const marked = (pieces, mark) =>
    pieces.map((piece, i) =>
      i % 2 ? make("mark", { class: mark, title: mark === "eq" ? "E_Q" : "E_A" }, piece) : piece,
    );
  const line = (look, tag, ...inside) =>
    make("p", { class: `line ${look}` }, make("span", { class: "tag" }, tag), make("bdi", {}, ...inside));

  const WIDTH = 328, LEFT = 48, TOP = 8, P = 84, GAP = 24, D = 50;
  const trace = (sample, whole) => {
    const layers = whole.layers;
    const step = (WIDTH - LEFT - 8) / layers;
    const x = (layer) => LEFT + step * (layer + 0.5);
    const y = (p) => TOP + P * (1 - p / 1000);
    const zero = TOP + P + GAP + (D * 50) / 150;
    const d = (points) => zero - (points / 150) * D;
    const path = (line) => line.map((p, i) => `${i ? "L" : "M"}${x(i).toFixed(1)},${y(p).toFixed(1)}`);
    const height = TOP + P + GAP + D + 26;
    const at = whole.layer;
    const caption =
      `p of a wrong answer and ΔP at ${layers} layers; at layer ${at}: clean ` +
      `${(sample.c[at] / 1000).toFixed(2)}, knockout ${(sample.x[at] / 1000).toFixed(2)}, ` +
      `ΔP ${minus(deltaP(sample, at, sample.x), 0)}`;
    const svg = draw("svg", { class: "trace", viewBox: `0 0 ${WIDTH} ${height}`, role: "img" });
    svg.setAttribute("aria-label", caption);
    const right = WIDTH - 8, bottom = TOP + P + GAP + D;
    const text = (tx, ty, words, anchor = "end") =>
      svg.append(draw("text", { x: tx, y: ty, "text-anchor": anchor }, words));
    svg.append(draw("line", { class: "at", x1: x(at), x2: x(at), y1: TOP, y2: bottom }));
    for (const p of [0, 1000])
      svg.append(draw("line", { class: "axis", x1: LEFT, x2: right, y1: y(p), y2: y(p) }));
    svg.append(draw("line", { class: "half", x1: LEFT, x2: right, y1: y(500), y2: y(500) }));
    text(LEFT - 5, y(1000) + 5, "wrong 1");
    text(LEFT - 5, y(500) + 3, ".5");
    text(LEFT - 5, y(0) + 2, "right 0");
    svg.append(draw("line", { class: "axis", x1: LEFT, x2: right, y1: zero, y2: zero }));
    text(LEFT - 5, d(-100) + 2, "−100");
    text(LEFT - 5, zero + 3, "ΔP 0");
    for (let layer = 0; layer < layers; layer += 1) {
      const move = deltaP(sample, layer, sample.x);
      const top = Math.min(zero, d(move));
      const look = flips(sample, layer) ? "bar" : "bar stays";
      const tall = Math.max(0.6, Math.abs(d(move) - zero));
      const thick = Math.max(1, 0.62 * step);
      svg.append(draw("rect", { class: look, x: x(layer) - thick / 2, y: top, width: thick, height: tall }));
    }
    if (sample.r) svg.append(draw("path", { class: "random", d: path(sample.r).join("") }));
    svg.append(draw("path", { class: "clean", d: path(sample.c).join("") }));
    svg.append(draw("path", { class: "knockout", d: path(sample.x).join("") }));
    const every = layers <= 12 ? 1 : layers <= 30 ? 5 : layers <= 50 ? 10 : 20;
    for (let layer = 0; layer < layers; layer += every) text(x(layer), bottom + 12, String(layer), "middle");
    text((LEFT + right) / 2, bottom + 24, "layer", "middle");
    for (let layer = 0; layer < layers; layer += 1) {
      const hit = draw("rect", { class: "layer", x: x(layer) - step / 2, y: TOP, width: step, height: bottom - TOP });
      hit.append(draw("title", {}, numbers(sample, layer)));
      svg.append(hit);
    }
    return svg;
  };
  const numbers = (sample, layer) => {
    const random = sample.r ? `, random ${(sample.r[layer] / 1000).toFixed(3)}` : "";
    return (
      `layer ${layer}: p clean ${(sample.c[layer] / 1000).toFixed(3)}, ` +
      `knockout ${(sample.x[layer] / 1000).toFixed(3)}${random}; ` +
      `ΔP ${minus(deltaP(sample, layer, sample.x), 1)}`
    );
  };

  const card = (sample, whole) => {
    const golds = sample.g.join(" · ") + (sample.more ? ` · and ${sample.more} more` : "");
    const chip = (look, words, about) =>
      make("span", { class: `chip ${look}`, ...(about ? { title: about } : {}) }, words);
    const at = whole.layer;
    const chips = make(
      "p",
      { class: "chips" },
      chip(sample.a, `${sample.a}-Anchored`),
      chip(sample.z ? "wrong" : "right", sample.z ? "answer wrong" : "answer right"),
      ...(sample.k ? [chip("", sample.k, KINDS[sample.k])] : []),
      chip("", `ΔP ${minus(deltaP(sample, at, sample.x), 0)} at layer ${at}`),
    );
    return make(
      "article",
      { class: "sample" },
      make(
        "div",
        {},
        line("question", "question", ...marked(sample.q, "eq")),
        line("answer", sample.own ? "your answer" : "answer", ...marked(sample.y, "ea")),
        line("golds", "gold", golds || "none given"),
        chips,
        make("p", { class: "meta" }, make("bdi", {}, sample.id)),
      ),
      trace(sample, whole),
    );
  };

  const choice = (name, label, options) => {
    const select = make("select", { id: `filter-${name}` });
    for (const [value, words] of options) select.append(make("option", { value }, words));
    return { select, label: make("label", {}, label, select) };
  };
  const group = choice("group", "group", [["", "all"], ["Q", "Q-Anchored"], ["A", "A-Anchored"]]);
  const label = choice("label", "answer", [["", "all"], ["0", "right"], ["1", "wrong"]]);
  const kind = choice("kind", "kind", [["", "all"]]);
  const words = make("input", { type: "search", id: "filter-text", placeholder: "in question, answer, gold or id" });
  const search = make("label", { class: "wide" }, "text", words);
  const back = make("button", { type: "button", id: "previous" }, "← Previous");
  const on = make("button", { type: "button", id: "next" }, "Next →");
  const where = make("output", { id: "where", "aria-live": "polite" });
  const sheet = make("div", { id: "sheet" });
  const weak = make("p", { class: "note weak", id: "weak", role: "note" },
    "This cell has no signal: p, ΔP and groups cannot be interpreted here.");
  let page = 0;

  const pick = (name, look) => {
    const svg = draw("svg", { viewBox: "0 0 32 10", "aria-hidden": "true" });
    svg.append(draw("line", { class: look, x1: 0, x2: 32, y1: 5, y2: 5 }));
    return make("span", {}, svg, name);
  };
  const bar = (name, look) => {
    const svg = draw("svg", { viewBox: "0 0 32 10", "aria-hidden": "true" });
    svg.append(draw("rect", { class: look, x: 12, y: 0, width: 7, height: 10 }));
    return make("span", {}, svg, name);
  };
  const legend = make(
    "div",
    { class: "key" },
    pick("p(wrong), clean", "clean"),
    pick("knockout", "knockout"),
    pick("random tokens blocked", "random"),
    bar("ΔP where the verdict flips", "bar"),
    bar("where it stays", "bar stays"),
    make("span", {}, "shaded: headline layer; point at a layer for its numbers"),
  );

  const matching = (whole) => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    return whole.samples.filter((sample) => {
      if (group.select.value && sample.a !== group.select.value) return false;
      if (label.select.value && String(sample.z) !== label.select.value) return false;
      if (kind.select.value && sample.k !== kind.select.value) return false;
      if (!wanted.length) return true;
      const text = [sample.q.join(""), sample.y.join(""), ...sample.g, sample.id].join("\n").toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
  };

  const show = () => {
    const whole = cell();
    weak.hidden = whole.signal;
    const found = matching(whole);
    const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
    page = Math.min(Math.max(0, page), last);
    const some = found.slice(page * PAGE, (page + 1) * PAGE);
    sheet.replaceChildren(...some.map((sample) => card(sample, whole)));
    if (!some.length) sheet.append(make("p", {}, "No sample here fits these filters."));
    const span = some.length ? `${page * PAGE + 1} to ${page * PAGE + some.length} of ` : "";
    const all = found.length === whole.samples.length ? "" : ` that fit, of ${whole.samples.length}`;
    where.textContent =
      `${span}${found.length} samples${all} shown here; the cell has ${whole.total.toLocaleString("en")}. ` +
      `Read-out ${whole.readout}, headline layer ${whole.layer}.`;
    back.disabled = page === 0;
    on.disabled = page === last;
  };

  const kinds = () => {
    const found = [...new Set(cell().samples.map((sample) => sample.k).filter(Boolean))].sort();
    kind.select.replaceChildren(make("option", { value: "" }, "all"));
    for (const name of found) kind.select.append(make("option", { value: name }, name));
    kind.label.hidden = !found.length;
  };

  const turn = (by) => {
    page += by;
    show();
    explorer.scrollIntoView({ block: "start" });
  };
  back.addEventListener("click", () => turn(-1));
  on.addEventListener("click", () => turn(1));
  chosen.addEventListener("change", () => { page = 0; kinds(); show(); });
  for (const control of [group.select, label.select, kind.select])
    control.addEventListener("change", () => { page = 0; show(); });
  words.addEventListener("input", () => { page = 0; show(); });

  const cellLabel = make("label", {}, "cell");
  cellLabel.append(chosen);
  explorer.append(
    make("div", { class: "filters" }, cellLabel, group.label, label.label, kind.label, search),
    weak,
    legend,
    sheet,
    make("div", { class: "pager" }, back, on, where),
  );
  kinds();
  show();
})();
