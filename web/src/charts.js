// Charts: an answer becomes a list of shapes, which are drawn as SVG on the page and on a canvas for a PNG.
// Every estimate has its interval. What is missing or outside of the declared values stands apart.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "./ui.js";
import { brief, clip, label, number, plain, shorten } from "./format.js";
import { t } from "./texts.js";

export const APART = new Set(["<missing>", "<outside>"]);
const MOST_BARS = 30;
const MOST_CELLS = 400;

const finite = (value) => typeof value === "number" && Number.isFinite(value);

// The estimates of one column with their labels; numbers beyond 2^53 are drawn rounded, and shown whole in the table.
export function points(answer, column) {
  const places = answer.columns.flatMap((one, place) => (one.kind === "label" ? [place] : []));
  return answer.rows.map((row) => {
    const cell = row[column] ?? {};
    const labels = places.map((place) => label(row[place]));
    const [value, low, high] = [cell.value, cell.low, cell.high].map((one) => plain(one ?? null));
    return { labels, value, low, high, apart: labels.some((one) => APART.has(one)), drawn: finite(value) };
  });
}

export const estimates = (answer) => answer.columns.flatMap((one, place) => (one.kind === "estimate" ? [place] : []));

export function chartKind(answer) {
  const keys = answer.columns.filter((one) => one.kind === "label");
  if (keys.length === 0) return "value";
  if (keys.length === 1) return answer.keys?.[0]?.type === "date" ? "line" : "bars";
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
const between = (one) => t("chart.between", { low: number(one.low), high: number(one.high) });

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

const whisker = (x1, x2, y, size, kind = "range") => [
  { shape: "line", kind, x1, x2, y1: y, y2: y },
  { shape: "line", kind, x1, x2: x1, y1: y - size, y2: y + size },
  { shape: "line", kind, x1: x2, x2, y1: y - size, y2: y + size },
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
  const { low, high, ticks, text } = axis(extent(all), width > 500 ? 6 : 4);
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
    const title = `${clip(named(one))}: ${number(one.value)}, ${between(one)}`;
    shapes.push({ shape: "text", kind: "label", x: left - 10, y: middle + 4, anchor: "end", text: fit(named(one), most) });
    shapes.push({ shape: "rect", kind, x: Math.min(x(0), x(one.value)), y: middle - 8, width: Math.max(1, Math.abs(x(one.value) - x(0))), height: 16, round: 3, title });
    if (finite(one.low) && finite(one.high)) shapes.push(...whisker(x(one.low), x(one.high), middle, 5));
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

function line(found, name, width) {
  const normal = found.filter((one) => !one.apart && one.drawn);
  const apart = found.filter((one) => one.apart && one.drawn);
  const { low, high: most, ticks, step, text } = axis(extent([...normal, ...apart]), 4);
  const high = Math.ceil(most / step) * step;
  if (high > ticks.at(-1)) ticks.push(high);
  const left = 14 + Math.max(...ticks.map((tick) => wide(text(tick))));
  const [top, height] = [12, width > 500 ? 250 : 170];
  const slot = width > 500 ? 70 : 52;
  const right = apart.length > 0 ? 14 + slot * (apart.length + 0.5) : 20;
  const x = (place) => left + 14 + ((width - left - right - 28) * place) / Math.max(1, normal.length - 1);
  const y = (value) => top + height - (height * (value - low)) / (high - low);
  const shapes = ticks.flatMap((tick) => [
    { shape: "line", kind: tick === 0 ? "zero" : "grid", x1: left, x2: width - 12, y1: y(tick), y2: y(tick) },
    { shape: "text", kind: "tick", x: left - 8, y: y(tick) + 4, anchor: "end", text: text(tick) },
  ]);
  const gap = x(1) - x(0);
  const edge = normal.every((one) => finite(one.low) && finite(one.high));
  if (edge && normal.length > 1) {
    const path = [...normal.map((one, place) => [x(place), y(one.high)]), ...normal.map((one, place) => [x(place), y(one.low)]).reverse()];
    shapes.push({ shape: "area", kind: "band", points: path });
  }
  shapes.push({ shape: "path", kind: "curve", points: normal.map((one, place) => [x(place), y(one.value)]) });
  const every = Math.max(1, Math.ceil((normal.length * 74) / (width - left - right)));
  const point = (one, at, kind) => {
    const title = `${clip(one.labels[0])}: ${number(one.value)}, ${between(one)}`;
    const cap = Math.min(3, gap / 3); // many points on a narrow screen stay apart
    if (finite(one.low) && finite(one.high)) {
      shapes.push({ shape: "line", kind: "range", x1: at, x2: at, y1: y(one.low), y2: y(one.high) });
      for (const end of [one.low, one.high]) shapes.push({ shape: "line", kind: "range", x1: at - cap, x2: at + cap, y1: y(end), y2: y(end) });
    }
    shapes.push({ shape: "circle", kind, x: at, y: y(one.value), radius: Math.min(3.5, Math.max(1.5, gap / 2.5)), title });
  };
  normal.forEach((one, place) => {
    point(one, x(place), "dot");
    if (place % every === 0) shapes.push({ shape: "text", kind: "tick", x: x(place), y: top + height + 20, anchor: "middle", text: fit(one.labels[0], 74) });
  });
  apart.forEach((one, place) => {
    const at = width - right + slot * (place + 1);
    if (place === 0) shapes.push({ shape: "line", kind: "apartline", x1: at - slot / 2, x2: at - slot / 2, y1: top, y2: top + height });
    point(one, at, "apartdot");
    shapes.push({ shape: "text", kind: "tick", x: at, y: top + height + 20, anchor: "middle", text: width > 500 ? one.labels[0] : one.labels[0].replace(/^<(.*)>$/, "$1") });
  });
  return { width, height: top + height + 30, shapes, name };
}

const CELL = 58; // narrower cells could not hold their numbers: the chart scrolls instead

function heat(found, name, room) {
  const most = [0, 1].map((place) => new Set(found.map((one) => one.labels[place])).size);
  if (most[1] > most[0]) found = found.map((one) => ({ ...one, labels: [one.labels[1], one.labels[0]] })); // the longer list goes down
  const order = (place) => {
    const names = [...new Set(found.map((one) => one.labels[place]))];
    return [...names.filter((one) => !APART.has(one)), ...names.filter((one) => APART.has(one))];
  };
  const [rows, columns] = [order(0), order(1)];
  const [, high] = extent(found.filter((one) => !one.apart && one.drawn));
  const texts = rows.map((one) => fit(one, room > 500 ? 180 : 90));
  const left = 16 + Math.max(40, ...texts.map(wide));
  const full = Math.max(room, left + 22 + CELL * columns.length);
  const gap = (names, place) => (APART.has(names[place]) && names.some((one) => !APART.has(one)) ? 10 : 0);
  const across = Math.min(150, (full - left - 22) / columns.length);
  const tall = 40;
  const shapes = [];
  const top = 30;
  columns.forEach((one, place) => {
    shapes.push({ shape: "text", kind: "label", x: left + gap(columns, place) + across * (place + 0.5), y: 18, anchor: "middle", text: fit(one, across - 4) });
  });
  rows.forEach((one, place) => {
    shapes.push({ shape: "text", kind: "label", x: left - 10, y: top + gap(rows, place) + tall * (place + 0.5) + 4, anchor: "end", text: fit(one, left - 16) });
  });
  const width = Math.max(0, ...found.map((one) => (finite(one.high) && finite(one.low) ? one.high - one.low : 0)));
  for (const one of found) {
    if (!one.drawn) continue;
    const [row, column] = [rows.indexOf(one.labels[0]), columns.indexOf(one.labels[1])];
    const [x, y] = [left + gap(columns, column) + across * column, top + gap(rows, row) + tall * row];
    const part = Math.max(0, Math.min(1, high > 0 ? one.value / high : 0));
    const title = `${clip(named(one))}: ${number(one.value)}, ${between(one)}`;
    const text = wide(number(one.value)) <= across - 10 ? number(one.value) : brief(one.value, true);
    shapes.push({ shape: "rect", kind: one.apart ? "apartcell" : "cell", opacity: one.apart ? 1 : 0.08 + 0.72 * part, x: x + 1.5, y: y + 1.5, width: across - 3, height: tall - 3, round: 4, title });
    const ink = !one.apart && part > 0.55 ? "cellink strong" : "cellink";
    shapes.push({ shape: "text", kind: ink, x: x + across / 2, y: y + 17, anchor: "middle", text });
    if (finite(one.low) && finite(one.high) && width > 0) {
      const half = (0.5 * (across - 16) * (one.high - one.low)) / width;
      shapes.push(...whisker(x + across / 2 - half, x + across / 2 + half, y + tall - 11, 3, !one.apart && part > 0.55 ? "range strong" : "range"));
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
  shapes.push({ shape: "rect", kind: "bar", x: Math.min(x(0), x(one.value)), y: 20, width: Math.max(1, Math.abs(x(one.value) - x(0))), height: 22, round: 4, title: number(one.value) });
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
  bar: ["--bar", null], restbar: ["--rest", "--edge"], apartbar: ["--apart", "--edge"], cell: ["--accent", null], apartcell: ["--apart-cell", null],
  band: ["--band", null], curve: [null, "--accent"], dot: ["--accent", null], apartdot: ["--apart", null], grid: [null, "--grid"], zero: [null, "--zero"],
  apartline: [null, "--line"], range: [null, "--range"], "range strong": [null, "--accent-ink"],
};
const INK = { label: "--ink", tick: "--quiet", cellink: "--ink", "cellink strong": "--accent-ink" };

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
      pen.lineWidth = one.kind.startsWith("range") || one.kind === "curve" ? 2 : 1;
      pen.stroke();
    }
  }
  probe.remove();
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
