// Charts: an answer becomes a list of shapes, which are drawn as SVG on the page and on a canvas for a PNG.
// Every estimate has its interval. What is missing or outside of the declared values stands apart.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "./ui.js";
import { brief, clip, digitsOf, interval, label, number, plain, shorten } from "./format.js";
import { t } from "./texts.js";

export const APART = new Set(["<missing>", "<outside>"]);
const MOST_BARS = 30;
const MOST_CELLS = 400;

const finite = (value) => typeof value === "number" && Number.isFinite(value);

// Which estimates of a column rest on too few rows: a warning says that there are some, and their interval is the whole
// public range, so none is longer.
export function untold(answer, column) {
  const name = answer.columns[column]?.name;
  if (!answer.warnings?.some((one) => one.startsWith(`${name}: `) && one.endsWith("the public range."))) return () => false;
  let [least, most] = [Infinity, -Infinity];
  for (const row of answer.rows) {
    least = Math.min(least, plain(row[column]?.low ?? Infinity));
    most = Math.max(most, plain(row[column]?.high ?? -Infinity));
  }
  return (cell) => plain(cell?.low) === least && plain(cell?.high) === most;
}

// The estimates of one column with their labels; numbers beyond 2^53 are drawn rounded, and shown whole in the table.
export function points(answer, column) {
  const places = answer.columns.flatMap((one, place) => (one.kind === "label" ? [place] : []));
  const few = untold(answer, column);
  const digits = digitsOf(answer.rows.map((row) => row[column]));
  const dates = answer.keys?.[0]?.values;
  return answer.rows.map((row, number) => {
    const cell = row[column] ?? {};
    const labels = places.map((place) => label(row[place]));
    const [value, low, high] = [cell.value, cell.low, cell.high].map((one) => plain(one ?? null));
    return { labels, value, low, high, digits, at: Date.parse(dates?.[number]), apart: labels.some((one) => APART.has(one)), few: few(cell), drawn: finite(value) };
  });
}

export const estimates = (answer) => answer.columns.flatMap((one, place) => (one.kind === "estimate" ? [place] : []));

export function chartKind(answer) {
  const keys = answer.columns.filter((one) => one.kind === "label");
  if (keys.length === 0) return "value";
  if (keys.length === 1) return answer.keys?.[0]?.type === "date" && !answer.selected ? "line" : "bars"; // a line joins neighbours
  if (keys.length === 2) {
    const count = (place) => new Set(answer.rows.map((row) => label(row[place]))).size;
    const [rows, columns] = answer.columns.flatMap((one, place) => (one.kind === "label" ? [count(place)] : []));
    if (rows * columns <= MOST_CELLS && Math.min(rows, columns) <= 14) return "heat";
  }
  return "bars";
}

// --- How wide a text is, as it is drawn. ---

const FONT = "12px system-ui, sans-serif";
let ruler;
const wide = (text) => {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = FONT;
  return ruler.measureText(text).width;
};

function fit(text, most) {
  let shown = clip(text);
  while (shown.length > 2 && wide(shown) > most) shown = `${shown.slice(0, -2)}…`;
  return shown;
}

const named = (one) => one.labels.join(" · ");
const said = (one) => number(one.value, one.digits);
const told = (one) => `${clip(named(one))}: ${said(one)}, ${interval(one, one.digits)}`;

// Round steps for an axis that covers all values, and how they are written: all in one way.
function axis([least, most], count = 5) {
  const [low, high] = least === most ? [0, 1] : [least, most];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.9999);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) ticks.push(Number(tick.toPrecision(12)) + 0);
  const short = ticks.some((tick) => Math.abs(tick) >= 10000);
  return { low, high, ticks, step, text: (tick) => brief(tick, short) };
}

const extent = (found) => {
  let [low, high] = [0, 0];
  for (const one of found) {
    for (const value of [one.value, one.low, one.high]) {
      if (finite(value) && value < low) low = value;
      if (finite(value) && value > high) high = value;
    }
  }
  return [low, high];
};

const whisker = (x1, x2, y, size) => [
  { shape: "line", kind: "range", x1, x2, y1: y, y2: y },
  { shape: "line", kind: "range", x1, x2: x1, y1: y - size, y2: y + size },
  { shape: "line", kind: "range", x1: x2, x2, y1: y - size, y2: y + size },
];

function bars(found, name, width) {
  const normal = found.filter((one) => !one.apart && one.drawn);
  const apart = found.filter((one) => one.apart && one.drawn).slice(0, 6);
  let shown = normal;
  let rest = [];
  if (normal.length > MOST_BARS) {
    const sorted = [...normal].sort((one, other) => other.value - one.value);
    [shown, rest] = [sorted.slice(0, MOST_BARS - 1), sorted.slice(MOST_BARS - 1)];
  }
  const all = [...shown, ...rest, ...apart];
  const few = (one) => one.few && rest.length === 0;
  const { low, high, ticks, text } = axis(extent(all.filter((one) => !few(one))), width > 500 ? 6 : 4);
  const more = t("chart.rest", { count: rest.length.toLocaleString("en") });
  const most = width > 500 ? 200 : 0.36 * width;
  const texts = [...shown, ...apart].map((one) => fit(named(one), most));
  const left = 16 + Math.max(40, ...[...texts, rest.length > 0 ? more : ""].map(wide));
  const x = (value) => left + ((width - left - 24) * (value - low)) / (high - low);
  const shapes = [];
  const line = 28;
  let y = 8;
  const draw = (one, kind) => {
    const middle = y + line / 2;
    const title = told(one);
    shapes.push({ shape: "text", kind: "label", x: left - 10, y: middle + 4, anchor: "end", text: fit(named(one), most) });
    if (few(one)) shapes.push({ shape: "text", kind: "tick", x: x(0) + 8, y: middle + 4, anchor: "start", text: t("chart.few") });
    else {
      shapes.push({ shape: "rect", kind, x: Math.min(x(0), x(one.value)), y: middle - 8, width: Math.max(1, Math.abs(x(one.value) - x(0))), height: 16, round: 3, title });
      if (finite(one.low) && finite(one.high)) shapes.push(...whisker(x(one.low), x(one.high), middle, 5));
    }
    y += line;
  };
  for (const one of shown) draw(one, "bar");
  if (rest.length > 0) {
    const [from, to] = extent(rest);
    const middle = y + line / 2;
    shapes.push({ shape: "text", kind: "label", x: left - 10, y: middle + 4, anchor: "end", text: more });
    shapes.push({ shape: "rect", kind: "restbar", x: x(from), y: middle - 8, width: Math.max(1, x(to) - x(from)), height: 16, round: 3, title: t("chart.resttitle", { low: number(from), high: number(to) }) });
    y += line;
  }
  if (apart.length > 0 && shown.length > 0) {
    shapes.push({ shape: "line", kind: "apartline", x1: 12, x2: width - 12, y1: y + 6, y2: y + 6 });
    y += 12;
  }
  for (const one of apart) draw(one, "apartbar");
  const grid = ticks.flatMap((tick) => [
    { shape: "line", kind: tick === 0 ? "zero" : "grid", x1: x(tick), x2: x(tick), y1: 4, y2: y + 4 },
    { shape: "text", kind: "tick", x: x(tick), y: y + 20, anchor: "middle", text: text(tick) },
  ]);
  return { width, height: y + 28, shapes: [...grid, ...shapes], name };
}

const bare = (text) => text.replace(/^<(.*)>$/, "$1");
const EVERY = [1, 2, 3, 6, 12, 24, 60, 120]; // labels of a time axis: half years rather than seven months

function line(found, name, width) {
  const shown = (one) => one.drawn && !one.few;
  const dated = found.some((one) => finite(one.at)) && found.every((one) => one.apart || finite(one.at));
  const normal = found.filter((one) => !one.apart);
  if (dated) normal.sort((one, other) => one.at - other.at);
  const apart = found.filter((one) => one.apart && shown(one));
  const { low, high: most, ticks, step, text } = axis(extent([...normal, ...apart].filter(shown)), 4);
  const high = Math.ceil(most / step) * step;
  if (high > ticks.at(-1)) ticks.push(high);
  const left = 14 + Math.max(...ticks.map((tick) => wide(text(tick))));
  const [top, height] = [12, width > 460 ? 320 : 180];
  const slot = width > 460 ? 74 : 52;
  const right = apart.length > 0 ? slot * (apart.length + 0.2) : 20;
  const [first, last] = dated ? [normal[0].at, normal.at(-1).at] : [0, normal.length - 1];
  const x = (place) => left + 14 + ((width - left - right - 28) * ((dated ? normal[place].at : place) - first)) / Math.max(1, last - first);
  const y = (value) => top + height - (height * (value - low)) / (high - low);
  const shapes = ticks.flatMap((tick) => [
    { shape: "line", kind: tick === 0 ? "zero" : "grid", x1: left, x2: width - 12, y1: y(tick), y2: y(tick) },
    { shape: "text", kind: "tick", x: left - 8, y: y(tick) + 4, anchor: "end", text: text(tick) },
  ]);
  const gap = (width - left - right) / Math.max(1, normal.length);
  const runs = [[]]; // the line is broken where there is nothing to draw
  normal.forEach((one, place) => (shown(one) ? runs.at(-1).push([one, x(place)]) : runs.push([])));
  for (const run of runs) {
    const edges = ["high", "low"].map((end) => run.map(([one, at]) => [at, y(one[end])]));
    const whole = run.every(([one]) => finite(one.low) && finite(one.high));
    if (whole && run.length > 1) shapes.push({ shape: "area", kind: "band", points: [...edges[0], ...edges[1].reverse()] });
    if (run.length > 0) shapes.push({ shape: "path", kind: "curve", points: run.map(([one, at]) => [at, y(one.value)]) });
  }
  const names = normal.map((one) => fit(one.labels[0], 74));
  const room = 12 + Math.max(0, ...names.slice(0, 100).map(wide));
  const every = EVERY.find((one) => one * gap >= room) ?? Math.ceil(room / gap);
  let free = 0;
  const point = (one, at, kind) => {
    const title = told(one);
    const cap = Math.min(3, gap / 3); // many points on a narrow screen stay apart
    if (finite(one.low) && finite(one.high)) {
      shapes.push({ shape: "line", kind: "range", x1: at, x2: at, y1: y(one.low), y2: y(one.high) });
      for (const end of [one.low, one.high]) shapes.push({ shape: "line", kind: "range", x1: at - cap, x2: at + cap, y1: y(end), y2: y(end) });
    }
    shapes.push({ shape: "circle", kind, x: at, y: y(one.value), radius: Math.min(3.5, Math.max(1.5, gap / 2.5)), title });
  };
  normal.forEach((one, place) => {
    if (shown(one)) point(one, x(place), "dot");
    if (place % every > 0 || x(place) < free) return;
    shapes.push({ shape: "text", kind: "tick", x: x(place), y: top + height + 20, anchor: "middle", text: names[place] });
    free = x(place) + room;
  });
  apart.forEach((one, place) => {
    const at = width - right + slot * (place + 0.65);
    if (place === 0) shapes.push({ shape: "line", kind: "apartline", x1: at - slot / 2, x2: at - slot / 2, y1: top, y2: top + height });
    point(one, at, "apartdot");
    shapes.push({ shape: "text", kind: "tick", x: at, y: top + height + 20, anchor: "middle", text: width > 460 ? one.labels[0] : bare(one.labels[0]) });
  });
  return { width, height: top + height + 30, shapes, name };
}


function heat(found, name, room) {
  const most = [0, 1].map((place) => new Set(found.map((one) => one.labels[place])).size);
  if (most[1] > most[0]) found = found.map((one) => ({ ...one, labels: [one.labels[1], one.labels[0]] })); // the longer list goes down
  const order = (place) => {
    const names = [...new Set(found.map((one) => one.labels[place]))];
    return [...names.filter((one) => !APART.has(one)), ...names.filter((one) => APART.has(one))];
  };
  const [rows, columns] = [order(0), order(1)];
  const [, high] = extent(found.filter((one) => !one.apart && one.drawn && !one.few));
  const texts = rows.map((one) => fit(one, room > 500 ? 180 : 90));
  const left = 16 + Math.max(40, ...texts.map(wide));
  const full = Math.max(room, left + 22 + (room > 500 ? 58 : 42) * columns.length); // narrower cells could not hold their numbers: it scrolls instead
  const gap = (names, place) => (APART.has(names[place]) && names.some((one) => !APART.has(one)) ? 10 : 0);
  const across = Math.min(150, (full - left - 22) / columns.length);
  const tall = 40;
  const shapes = [];
  const top = 30;
  columns.forEach((one, place) => {
    shapes.push({ shape: "text", kind: "label", x: left + gap(columns, place) + across * (place + 0.5), y: 18, anchor: "middle", text: wide(one) > across - 4 ? fit(bare(one), across) : one });
  });
  rows.forEach((one, place) => {
    shapes.push({ shape: "text", kind: "label", x: left - 10, y: top + gap(rows, place) + tall * (place + 0.5) + 4, anchor: "end", text: fit(one, left - 16) });
  });
  const width = Math.max(0, ...found.map((one) => (finite(one.high) && finite(one.low) && !one.few ? one.high - one.low : 0)));
  for (const one of found) {
    if (!one.drawn) continue;
    const [row, column] = [rows.indexOf(one.labels[0]), columns.indexOf(one.labels[1])];
    const [x, y] = [left + gap(columns, column) + across * column, top + gap(rows, row) + tall * row];
    const part = Math.max(0, Math.min(1, high > 0 ? one.value / high : 0));
    const title = told(one);
    const text = wide(said(one)) <= across - 6 ? said(one) : brief(one.value, true);
    const pale = one.apart || one.few;
    shapes.push({ shape: "rect", kind: pale ? "apartcell" : "cell", opacity: pale ? 1 : 0.1 + 0.9 * part, x: x + 1.5, y: y + 1.5, width: across - 3, height: tall - 3, round: 4, title });
    if (one.few) continue; // its number would be a guess, and its interval the longest that there can be
    shapes.push({ shape: "text", kind: "label", x: x + across / 2, y: y + 17, anchor: "middle", text });
    if (finite(one.low) && finite(one.high) && width > 0) {
      const half = (0.5 * (across - 16) * (one.high - one.low)) / width;
      shapes.push(...whisker(x + across / 2 - half, x + across / 2 + half, y + tall - 11, 3));
    }
  }
  const all = top + rows.length * tall + 10 + 26;
  const note = t("chart.heatnote", { width: number(width) });
  if (wide(note) < full - left) shapes.push({ shape: "text", kind: "tick", x: left, y: all - 8, anchor: "start", text: note });
  return { width: full, height: all, shapes, name };
}

function value(found, name, width) {
  const one = found[0];
  if (!one?.drawn) return null;
  const { low, high, ticks, text } = axis(extent([one]), width > 500 ? 6 : 4);
  const x = (at) => 24 + ((width - 48) * (at - low)) / (high - low);
  const shapes = ticks.flatMap((tick) => [
    { shape: "line", kind: tick === 0 ? "zero" : "grid", x1: x(tick), x2: x(tick), y1: 6, y2: 56 },
    { shape: "text", kind: "tick", x: x(tick), y: 74, anchor: "middle", text: text(tick) },
  ]);
  shapes.push({ shape: "rect", kind: "bar", x: Math.min(x(0), x(one.value)), y: 20, width: Math.max(1, Math.abs(x(one.value) - x(0))), height: 22, round: 4, title: said(one) });
  if (finite(one.low) && finite(one.high)) shapes.push(...whisker(x(one.low), x(one.high), 31, 8));
  return { width, height: 82, shapes, name };
}

const WIDE = 720; // of a picture

export function plan(answer, column, width = WIDE) {
  const found = points(answer, column);
  const kind = chartKind(answer);
  const drawing = { bars, line, heat, value }[kind](found, answer.columns[column]?.name ?? "", width);
  return drawing && drawing.shapes.length > 0 ? { ...drawing, kind } : null;
}

const draw = {
  line: (one) => html`<line class=${one.kind} x1=${one.x1} x2=${one.x2} y1=${one.y1} y2=${one.y2} />`,
  rect: (one) =>
    html`<rect class=${one.kind} x=${one.x} y=${one.y} width=${one.width} height=${one.height} rx=${one.round ?? 0} fill-opacity=${one.opacity}>
      ${one.title && html`<title>${one.title}</title>`}
    </rect>`,
  circle: (one) => html`<circle class=${one.kind} cx=${one.x} cy=${one.y} r=${one.radius}>${one.title && html`<title>${one.title}</title>`}</circle>`,
  text: (one) => html`<text class=${one.kind} x=${one.x} y=${one.y} text-anchor=${one.anchor}>${one.text}</text>`,
  area: (one) => html`<polygon class=${one.kind} points=${one.points.map((at) => at.join(",")).join(" ")} />`,
  path: (one) => html`<polyline class=${one.kind} points=${one.points.map((at) => at.join(",")).join(" ")} />`,
};

// A chart is drawn anew for the width that it gets, so that its texts keep their size on every screen.
const [LEAST, MOST] = [260, 880];

export function Drawing({ make, title, pale }) {
  const place = useRef();
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const look = () => place.current?.clientWidth > 0 && setWidth(place.current.clientWidth); // none while a view is hidden
    look();
    const watch = new ResizeObserver(() => requestAnimationFrame(look));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  const drawing = useMemo(() => (width > 0 ? make(Math.min(MOST, Math.max(LEAST, width))) : null), [make, width]);
  const scrolls = drawing !== null && drawing.width > width;
  return html`<div class="chart-scroll" ref=${place} tabindex=${scrolls ? 0 : undefined} role=${scrolls ? "group" : undefined} aria-label=${scrolls ? title : undefined}>
    ${drawing &&
    html`<svg class=${pale ? "chart pale" : "chart"} width=${drawing.width} height=${drawing.height} viewBox="0 0 ${drawing.width} ${drawing.height}" role="img" aria-label=${title}>
      ${drawing.shapes.map((one) => draw[one.shape](one))}
    </svg>`}
  </div>`;
}

export function Chart({ answer, column, pale }) {
  const make = useMemo(() => (width) => plan(answer, column, width), [answer, column]);
  const title = t(pale ? "chart.rehearsed" : "chart.title", { name: clip(answer.columns[column]?.name ?? ""), count: answer.rows.length.toLocaleString("en") });
  return html`<${Drawing} make=${make} title=${title} pale=${pale} />`;
}

// --- The same shapes as a picture. Colours are those that the page shows now. ---

const PAINT = {
  bar: ["--bar", null], restbar: ["--rest", "--edge"], apartbar: ["--apart", "--edge"], cell: ["--cell", null], apartcell: ["--apart-cell", null],
  band: ["--band", null], curve: [null, "--accent"], dot: ["--accent", null], apartdot: ["--apart", null], grid: [null, "--grid"], zero: [null, "--zero"],
  apartline: [null, "--line"], range: [null, "--range"],
};
const INK = { label: "--ink", tick: "--quiet" };

export function toPicture(drawing, caption) {
  const scale = 2;
  const style = getComputedStyle(document.documentElement);
  const probe = document.createElement("span");
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = style.getPropertyValue(name);
    return getComputedStyle(probe).color;
  };
  const canvas = document.createElement("canvas");
  const head = 44;
  [canvas.width, canvas.height] = [drawing.width * scale, (drawing.height + head + 12) * scale];
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.fillStyle = colour("--card");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = colour("--ink");
  pen.font = "600 14px system-ui, sans-serif";
  pen.fillText(shorten(caption.replace(/\s+/g, " "), 80), 16, 26);
  pen.translate(0, head);
  for (const one of drawing.shapes) {
    const [fill, stroke] = PAINT[one.kind] ?? [null, null];
    pen.globalAlpha = one.opacity ?? 1;
    pen.beginPath();
    if (one.shape === "text") {
      pen.fillStyle = colour(INK[one.kind] ?? "--ink");
      pen.font = FONT;
      pen.textAlign = { start: "left", middle: "center", end: "right" }[one.anchor];
      pen.fillText(one.text, one.x, one.y);
      continue;
    }
    if (one.shape === "line") {
      pen.moveTo(one.x1, one.y1);
      pen.lineTo(one.x2, one.y2);
    } else if (one.shape === "rect") pen.roundRect(one.x, one.y, one.width, one.height, one.round ?? 0);
    else if (one.shape === "circle") pen.arc(one.x, one.y, one.radius, 0, 2 * Math.PI);
    else one.points.forEach(([x, y], place) => (place === 0 ? pen.moveTo(x, y) : pen.lineTo(x, y)));
    if (fill !== null) {
      pen.fillStyle = colour(fill);
      pen.fill();
    }
    if (stroke !== null) {
      pen.strokeStyle = colour(stroke);
      pen.lineWidth = one.kind === "range" || one.kind === "curve" ? 2 : 1;
      pen.stroke();
    }
  }
  probe.remove();
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
