// What to write in place of a wrong word: what the message says, or else the nearest name that the schema declares. Only
// public facts are compared.
import { literal, placeOf, quoted, wordAt } from "./editor.js";

export function distance(one, other) {
  let before = Array.from({ length: other.length + 1 }, (_none, place) => place);
  for (let row = 1; row <= one.length; row += 1) {
    const now = [row];
    for (let at = 1; at <= other.length; at += 1) {
      now[at] = Math.min(before[at] + 1, now[at - 1] + 1, before[at - 1] + (one[row - 1] === other[at - 1] ? 0 : 1));
    }
    before = now;
  }
  return before[other.length];
}

function nearest(word, names) {
  const folded = word.toLowerCase().slice(0, 80);
  let best = null;
  let least = Math.max(2, Math.ceil(folded.length / 3)) + 1;
  for (const name of names.slice(0, 5000)) {
    if (Math.abs(name.length - folded.length) >= least) continue;
    const found = distance(folded, name.toLowerCase());
    if (found < least) [best, least] = [name, found];
  }
  return best;
}

// Return the one of these names that a message says to write, so that the button and the message agree.
function advised(problem, names) {
  const found = /Write `([^`]+)`|did you mean '([^']+)'/.exec(problem.detail ?? "");
  const name = found?.[1] ?? found?.[2];
  return names.includes(name) ? name : null;
}

// Return {from, to, text}, or null where no name is near.
export function fixOf(problem, text, schema) {
  if (!problem?.line) return null;
  const [from, to] = wordAt(text, placeOf(text, problem.line, problem.column));
  const word = text.slice(from, to);
  const labels = schema.columns.flatMap((column) => column.labels ?? []);
  if (word === "*" && /select\s+$/i.test(text.slice(0, from))) return { from, to, text: "count(*)" };
  if (word.startsWith("'")) {
    const plain = word.slice(1).replace(/'$/, "").replaceAll("''", "'");
    const found = labels.includes(plain) ? null : (advised(problem, labels) ?? nearest(plain, labels));
    return found === null ? null : { from, to, text: literal(found) };
  }
  if (!/^["A-Za-z_]/.test(word)) return null;
  const plain = word.replaceAll('"', "");
  const label = labels.find((one) => one.toLowerCase() === plain.toLowerCase());
  if (label !== undefined) return { from, to, text: literal(label) };
  const names = [...schema.columns.map((column) => column.name), schema.table];
  if (names.includes(plain)) return null;
  const found = advised(problem, names) ?? nearest(plain, names);
  return found === null ? null : { from, to, text: quoted(found) };
}
