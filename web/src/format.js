// Numbers, shares and times as people read them.
import { t } from "./texts.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

// A share is an exact fraction such as "61/5000".
export function share(text) {
  const [top, bottom] = String(text ?? 0).split("/");
  return Number(top) / Number(bottom ?? 1);
}

export function percent(value) {
  const part = 100 * (typeof value === "number" ? value : share(value));
  if (part === 0) return "0%";
  if (Math.abs(part) < 0.0001) return part > 0 ? "<0.0001%" : ">-0.0001%";
  if (Math.abs(part) > 99.9 && Math.abs(part) < 100) return `${Math.trunc(part * 1000) / 1000}%`;
  return `${Number(part.toPrecision(Math.abs(part) > 10 ? 4 : 3))}%`; // 98.95% left is not 99%
}

export function number(value, digits) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "bigint") return whole.format(value);
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (digits !== undefined) return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits, signDisplay: "negative" });
  if (Number.isInteger(value)) return whole.format(value);
  const most = Math.abs(value) >= 1000 ? 1 : Math.abs(value) >= 100 ? 2 : Math.abs(value) >= 1 ? 3 : 4;
  return Math.abs(value) >= 1 ? value.toLocaleString("en", { maximumFractionDigits: most }) : String(Number(value.toPrecision(most)));
}

// How many digits after the point the estimates of a column are worth: a hundredth of the shortest interval. None are given
// where all are whole.
export function digitsOf(cells) {
  let [shortest, whole] = [Infinity, true];
  for (const cell of cells) {
    const [value, low, high] = [cell?.value, cell?.low, cell?.high].map((one) => plain(one ?? NaN));
    if (high - low > 0) shortest = Math.min(shortest, high - low);
    whole &&= ![value, low, high].some((one) => one % 1);
  }
  return whole || !Number.isFinite(shortest) ? undefined : Math.min(8, Math.max(0, Math.ceil(2 - Math.log10(shortest))));
}

// An interval, its ends rounded away from each other.
export function interval({ low, high }, digits) {
  const unit = 10 ** (digits ?? 0);
  const away = (value, round) => (digits === undefined || typeof value !== "number" || Number(value.toFixed(digits)) === value ? value : round(value * unit) / unit);
  return t("answer.range", { low: number(away(low, Math.floor), digits), high: number(away(high, Math.ceil), digits) });
}

// A deviation in three digits, rounded up: what is said about an error is never too little.
export function deviation(value) {
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  return number(value > 0 && value < Infinity && !Number.isInteger(value) ? Number((Math.ceil(value / unit - 1e-9) * unit).toPrecision(3)) : value);
}

// A short form for axes: 12.5K, 3.4M.
export function brief(value, short) {
  if (!short) return number(Number(value.toPrecision(4)));
  return new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(value);
}

export function label(value) {
  if (value === true) return "true";
  if (value === false) return "false";
  return value === null ? "<missing>" : String(value);
}

export const shorten = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

// A label may have ten thousand characters: the middle is of no use to a reader.
export const clip = (text) => shorten(text, 200);

export const moment = (text) =>
  new Date(text).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
export const day = (text) => new Date(text).toLocaleDateString("en", { dateStyle: "medium" });
export const plain = (value) => (typeof value === "bigint" ? Number(value) : value);

export const unitFraction = (text) => {
  const value = share(text);
  return value === 0 ? "0" : value < 0.001 ? value.toExponential(0).replace("e-", "e−") : String(value);
};

// Seconds as a step of a clock: 3600 is 1 h, 900 is 15 min.
export const duration = (seconds) => {
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([one]) => seconds % one === 0) ?? [1, "s"];
  return `${number(seconds / size)} ${unit}`;
};
