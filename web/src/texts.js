// Every text of the page is in texts/en.json; another language is another such file.
import en from "../texts/en.json";

const texts = en;

// Return a text, with {names} replaced. A name that is missing shows itself, so that a test notices.
export function t(key, values = {}) {
  const found = texts[key];
  if (found === undefined) return `⟦${key}⟧`;
  return found.replace(/\{(\w+)\}/g, (_all, name) => (values[name] === undefined ? `{${name}}` : String(values[name])));
}

export const has = (key) => texts[key] !== undefined;
