// Small parts that every view uses.
import { cloneElement, h } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import htm from "htm";
import { Problem } from "./api.js";
import { t } from "./texts.js";
import { percent, share } from "./format.js";

export const html = htm.bind(h);

let ids = 0;
export const useId = () => useRef(`e${(ids += 1)}`).current;

// Load something and say how it went; `reload` does it again.
export function useLoad(load, inputs) {
  const [state, setState] = useState({ loading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let stale = false;
    setState((before) => ({ ...before, loading: true, fault: undefined }));
    load().then(
      (found) => !stale && setState({ found }),
      (fault) => !stale && setState((before) => ({ found: before.found, fault })),
    );
    return () => {
      stale = true;
    };
  }, [...inputs, round]);
  return { ...state, reload: useCallback(() => setRound((before) => before + 1), []) };
}

export function Field({ label, hint, wide, children }) {
  const id = useId();
  const control = cloneElement(children, hint ? { id, "aria-describedby": `${id}-hint` } : { id });
  return html`<div class=${wide ? "field wide" : "field"}>
    <label for=${id}>${label}</label>${control}${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}
  </div>`;
}

// A link to the theorem behind a number.
export function Why({ id, open, word = "why" }) {
  return html`<button type="button" class="link" aria-label=${`${t(word)}: ${id}`} onClick=${() => open(id)}>${t(word)}</button>`;
}

// What the server says names arguments of the client where the page has fields and buttons.
export const plainly = (text) =>
  text
    .replace(/: request_approval\b/, "")
    .replace(" (max_price)", "")
    .replace(/ To allow it, write max_price="[^"]+"\./, "")
    .replace(/\bwithin="?([^"\s]+)"? would cost/, (_all, within) => t("ways.within", { within }))
    .replace("with fresh=True", t("ways.fresh"));

// Text with names and commands set apart.
const marked = (text) => text.split(/`([^`]+)`/).map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));

// What a refusal says. The server draws the place of a mistake in three lines, where the editor underlines it.
export function reason(fault) {
  if (!(fault instanceof Problem)) return t("problem.page");
  const text = plainly(fault.detail);
  return marked((fault.line && text.split("\n").slice(3).join("\n")) || text);
}

// Whether something was charged, unless the refusal says so itself.
export function charged(fault) {
  if (!(fault instanceof Problem) || /(charged|drawn)\.?$/.test(fault.detail)) return "";
  return fault.charged === true ? t("problem.charged") : fault.charged === false ? t("problem.free") : "";
}

// A `plain` one is about something that could never cost anything.
export function Fault({ fault, retry, plain }) {
  if (!fault) return null;
  return html`<div class="notice bad" role="alert">
    <p class="lines">${reason(fault)} ${!plain && charged(fault)}</p>
    ${retry && html`<button type="button" class="small" onClick=${retry}>${t("retry")}</button>`}
  </div>`;
}

export function Notice({ kind = "info", children, role }) {
  return html`<div class="notice ${kind}" role=${role}>${children}</div>`;
}

export const Loading = () => html`<p class="quiet" role="status">${t("loading")}</p>`;

// How much of a budget is spent, and what a question would take of it.
export function Meter({ left, price = 0, label }) {
  const used = Math.min(1, Math.max(0, 1 - share(left)));
  const wanted = Math.min(1 - used, price);
  const text = label ?? t("budget.meter", { left: percent(1 - used) });
  return html`<div class="meter" role="img" aria-label=${text}>
    <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="room" width="100" height="8" />
      <rect class="used" width=${100 * used} height="8" />
      <rect class="wanted" x=${100 * used} width=${wanted > 0 ? Math.max(0.6, 100 * wanted) : 0} height="8" />
    </svg>
  </div>`;
}

// A dialog of the browser itself: it keeps the focus inside, and Escape closes it.
export function Dialog({ title, open, close, children, wide }) {
  const element = useRef();
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby=${id} onClose=${close}>
    ${open &&
    html`<div class="dialog-head">
        <h2 id=${id}>${title}</h2>
        <button type="button" class="plain" aria-label=${t("close")} onClick=${close}>×</button>
      </div>
      ${children}`}
  </dialog>`;
}

export function Tabs({ label, tabs, chosen, choose }) {
  const keys = (event) => {
    const place = tabs.findIndex(([name]) => name === chosen);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    choose(tabs[(place + step + tabs.length) % tabs.length][0]);
    event.currentTarget.children[(place + step + tabs.length) % tabs.length].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${keys}>
    ${tabs.map(
      ([name, text]) =>
        html`<button type="button" role="tab" id=${`tab-${name}`} aria-selected=${name === chosen} tabindex=${name === chosen ? 0 : -1} onClick=${() => choose(name)}>
          ${text}
        </button>`,
    )}
  </div>`;
}

// Rows of a table, a page at a time.
export function usePages(rows, size) {
  const [page, setPage] = useState(0);
  const pages = Math.max(1, Math.ceil(rows.length / size));
  const at = Math.min(page, pages - 1);
  const shown = rows.slice(at * size, (at + 1) * size);
  const controls =
    pages > 1 &&
    html`<nav class="pages" aria-label=${t("pages")}>
      <button type="button" class="small" disabled=${at === 0} onClick=${() => setPage(at - 1)}>${t("pages.previous")}</button>
      <span>${t("pages.at", { at: at + 1, of: pages.toLocaleString("en") })}</span>
      <button type="button" class="small" disabled=${at === pages - 1} onClick=${() => setPage(at + 1)}>${t("pages.next")}</button>
    </nav>`;
  return { shown, controls, first: at * size };
}

// Run something once at a time, and keep what went wrong.
export function useAction(action) {
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState();
  const alive = useRef(true);
  useEffect(() => () => (alive.current = false), []);
  const run = async (...values) => {
    setBusy(true);
    setFault(undefined);
    try {
      return await action(...values);
    } catch (caught) {
      if (alive.current) setFault(caught);
      return undefined;
    } finally {
      if (alive.current) setBusy(false);
    }
  };
  return { run, busy, fault, clear: () => setFault(undefined) };
}

// The beginning of a text says what it is about; the whole is one key away.
export function Code({ text }) {
  return html`<code class="sql">${text}</code>`;
}

export function Theorems({ ids: text, open }) {
  if (!text) return null;
  return html`${text
    .split(/,\s*/)
    .map((id) => html`<button type="button" class="link" onClick=${() => open(id)}>${id}</button>`)}`;
}
