// The SQL editor: completion from the schema, and errors underlined where they are.
// It stands in a shadow root, where its styles are sheets of the document and not inline: the security policy forbids those.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Compartment, EditorState, Prec, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, keymap } from "@codemirror/view";
import { history, historyKeymap, standardKeymap } from "@codemirror/commands";
import { autocompletion, closeCompletion, completionKeymap } from "@codemirror/autocomplete";
import { html } from "./ui.js";
import { t } from "./texts.js";

// What is answered at all: a short list, so that completion offers nothing that would be refused. A grammar of all SQL
// would be an eighth of the page; questions are short, and coloured word by word.
const KEYWORDS =
  "select from where group by order limit having as and or not in is null between like case when then else end asc desc distinct with join on true false filter cast date interval".split(" ");
const FUNCTIONS = ["avg", "sum", "median", "min", "max", "count"];
const TOKENS = /(--[^\n]*|\/\*[^]*?(?:\*\/|$))|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\b\d[\d.]*)|([a-z_]\w*)/gi;
const KINDS = [null, "cm-comment", "cm-string", null, "cm-number"];
const marks = Object.fromEntries(["cm-comment", "cm-string", "cm-number", "cm-keyword"].map((kind) => [kind, Decoration.mark({ class: kind })]));
const known = new Set(KEYWORDS);
const MOST_COLOURED = 20000; // characters

function paint(doc) {
  const builder = new RangeSetBuilder();
  for (const found of doc.sliceString(0, MOST_COLOURED).matchAll(TOKENS)) {
    const kind = found[5] !== undefined ? known.has(found[5].toLowerCase()) && "cm-keyword" : KINDS[found.findIndex((part, place) => place > 0 && part !== undefined)];
    if (kind) builder.add(found.index, found.index + found[0].length, marks[kind]);
  }
  return builder.finish();
}

const colours = StateField.define({
  create: (state) => paint(state.doc),
  update: (before, transaction) => (transaction.docChanged ? paint(transaction.newDoc) : before),
  provide: (field) => EditorView.decorations.from(field),
});

const look = EditorView.theme({
  "&": { color: "var(--ink)", fontSize: "0.95rem", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { padding: "0.75rem 0.9rem", minHeight: "6.5rem", caretColor: "var(--accent)" },
  ".cm-line": { padding: "0" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-content ::selection": { backgroundColor: "var(--select)" },
  ".cm-keyword": { color: "var(--accent)", fontWeight: "600" },
  ".cm-string": { color: "var(--string)" },
  ".cm-number": { color: "var(--digit)" },
  ".cm-comment": { color: "var(--quiet)", fontStyle: "italic" },
  ".cm-wrong": { textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "4px", textDecorationSkipInk: "none" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "8px", overflow: "hidden", boxShadow: "var(--shadow)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "0.85rem", maxHeight: "14rem", minWidth: "11rem", maxWidth: "min(30rem, 80vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "0.2rem 0.6rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-ink)" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "0.75", marginLeft: "0.8em" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
});

// Typed over a selection, a letter would get the style of what it replaces, as an inline style of the browser's own making.
const overwrite = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || event.data === null || view.composing || view.state.selection.main.empty) return false;
    view.dispatch({ ...view.state.replaceSelection(event.data), userEvent: "input.type", scrollIntoView: true });
    event.preventDefault();
    return true;
  },
});

const setWrong = StateEffect.define();
const wrong = StateField.define({
  create: () => Decoration.none,
  update(before, transaction) {
    let found = transaction.docChanged ? Decoration.none : before;
    for (const effect of transaction.effects) if (effect.is(setWrong)) found = effect.value;
    return found;
  },
  provide: (field) => EditorView.decorations.from(field),
});

// Return the word, text or sign at a place, as [from, to].
export function wordAt(text, place) {
  const rest = text.slice(place);
  const found = /^('(?:[^']|'')*'?|"(?:[^"]|"")*"?|[A-Za-z_][A-Za-z0-9_]*|[0-9.]+|\S)/.exec(rest);
  return found ? [place, place + found[0].length] : [Math.max(0, place - 1), place];
}

export function placeOf(text, line, column) {
  const lines = text.split("\n");
  let place = 0;
  for (let number = 0; number < Math.min(line - 1, lines.length); number += 1) place += lines[number].length + 1;
  return Math.min(text.length, place + column - 1);
}

const literal = (value) => `'${String(value).replaceAll("'", "''")}'`;
const quoted = (name) => (/^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

function words({ table, columns, unit, tables = [] }) {
  const labels = columns.flatMap((column) =>
    (column.labels ?? []).slice(0, 200).map((one) => ({ label: literal(one), detail: column.name, type: "text", boost: -20 })),
  );
  const names = columns.map((column) => ({ label: quoted(column.name), detail: t(`kind.${column.kind}`), type: "property", boost: 20 }));
  const people = unit.id ? [{ label: `count(DISTINCT ${quoted(unit.id)})`, detail: t("builder.people"), type: "function", boost: 5 }] : [];
  const functions = ["count(*)", ...FUNCTIONS].map((one) => ({ label: one, type: "function", boost: 10 }));
  const keywords = KEYWORDS.map((one) => ({ label: one.toUpperCase(), type: "keyword" }));
  const declared = new Set(columns.map((column) => column.name));
  const further = tables.flatMap((own) => [
    { label: quoted(own.name), detail: t(own.columns.length > 0 ? "editor.table" : "kind.computed"), type: "type", boost: 12 },
    ...own.columns.filter((one) => !declared.has(one)).map((one) => ({ label: quoted(one), detail: own.name, type: "property", boost: 11 })),
  ]);
  return [...names, ...further, ...keywords, { label: quoted(table), detail: t("editor.table"), type: "type", boost: 15 }, ...people, ...functions, ...labels];
}

function complete(schema) {
  const options = words(schema);
  return (context) => {
    const before = context.matchBefore(/'[^']*|[\w"]+/);
    if (!before && !context.explicit) return null;
    return { from: before ? before.from : context.pos, options, validFor: /^('[^']*|[\w"]*)$/ };
  };
}

// `given` is a text that comes from outside, in an object of its own; what is typed goes out through `onText` alone. A text
// that went both ways would undo what is typed meanwhile. So would one that is put in after the next frame, as by an effect
// that does not belong to the layout: on a busy machine, keys come before it.
export function Editor({ given, text, schema, problem, onText, onAsk }) {
  const host = useRef();
  const view = useRef();
  const now = useRef({});
  now.current = { onText, onAsk };
  const language = useRef(new Compartment());
  useLayoutEffect(() => {
    const shadow = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    view.current = new EditorView({
      root: shadow,
      parent: shadow,
      state: EditorState.create({
        doc: given.text,
        extensions: [
          Prec.highest(keymap.of([{ key: "Mod-Enter", run: (own) => (closeCompletion(own), now.current.onAsk(), true) }])),
          history(),
          language.current.of([]),
          colours,
          look,
          wrong,
          EditorView.lineWrapping,
          overwrite,
          // A list that is still being made when the editor is left would open over what comes next.
          EditorView.domEventHandlers({ blur: (_event, own) => void setTimeout(() => closeCompletion(own), 20) }),
          EditorView.contentAttributes.of({ "aria-label": t("editor.label"), spellcheck: "false", autocapitalize: "off" }),
          // Tab is left to the browser, so that the keyboard can leave the editor.
          keymap.of([...completionKeymap, ...standardKeymap, ...historyKeymap]),
          EditorView.updateListener.of((update) => update.docChanged && now.current.onText(update.state.doc.toString())),
        ],
      }),
    });
    return () => view.current.destroy();
  }, []);
  useEffect(() => {
    const completion = autocompletion({ icons: false, override: [complete(schema)] });
    view.current.dispatch({ effects: language.current.reconfigure(completion) });
  }, [schema]);
  useLayoutEffect(() => {
    const { doc } = view.current.state;
    if (doc.toString() !== given.text) view.current.dispatch({ changes: { from: 0, to: doc.length, insert: given.text } });
  }, [given]);
  useEffect(() => {
    const { doc } = view.current.state;
    let underlined = Decoration.none;
    if (problem?.line && doc.length > 0) {
      const source = doc.toString();
      const [from, to] = wordAt(source, placeOf(source, problem.line, problem.column));
      if (to > from) underlined = Decoration.set([Decoration.mark({ class: "cm-wrong" }).range(from, to)]);
    }
    view.current.dispatch({ effects: setWrong.of(underlined) });
  }, [problem, text]);
  return html`<div class="editor" ref=${host}></div>`;
}

export { literal, quoted };
