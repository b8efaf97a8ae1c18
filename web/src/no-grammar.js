// The editor has no grammar: it colours words, and asks nobody for a syntax tree. The build takes this for the two packages of
// grammars that CodeMirror would bring along (build.mjs): of what they give, this is all that is called.
import { Facet } from "@codemirror/state";

const none = () => null;
export const syntaxTree = () => ({ resolveInner: () => ({ childBefore: none, childAfter: none }) });
export const NodeProp = {};
export const matchBrackets = none;
export const indentUnit = Facet.define({ combine: ([unit = "  "]) => unit });
export const getIndentUnit = () => 2;
export const indentString = (_state, columns) => " ".repeat(columns);
export const getIndentation = none; // a new line begins where the one before it does
export class IndentContext {
  lineIndent = () => 0;
}
