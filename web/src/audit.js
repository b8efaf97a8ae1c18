// The auditor's view: the chain of the ledger is computed again here, in the browser, and compared with a noted head.
import { useState } from "preact/hooks";
import { datasetPath, get, post, save } from "./api.js";
import { Fault, Field, Loading, Notice, Why, html, useAction, useLoad, usePages } from "./ui.js";
import { moment } from "./format.js";
import { t } from "./texts.js";

const PAGE = 500;

async function digest(text) {
  const found = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(found), (one) => one.toString(16).padStart(2, "0")).join("");
}

export async function allLines(dataset, progress = () => {}) {
  const lines = [];
  for (let after = 0; after !== null; ) {
    const found = await get(`${datasetPath(dataset)}/ledger/entries?after=${after}&limit=${PAGE}`);
    lines.push(...found.entries);
    progress(lines.length, found.total);
    after = found.next;
  }
  return lines;
}

// The first entry holds the key that chooses which rows of a person count, and is not shown: its hash is given instead.
export async function verifyChain(lines) {
  let previous = null;
  for (const line of lines) {
    if (previous !== null) {
      if (line.text === null) throw new Error(t("audit.gap", { number: line.number }));
      if ((await digest(`${previous}\n${line.text}`)) !== line.hash) return { ok: false, number: line.number + 1 };
    }
    previous = line.hash;
  }
  return { ok: true, head: previous, entries: lines.length };
}

// The fields of an entry; none if it is damaged, which the chain shows.
function fields(line) {
  try {
    return JSON.parse(line.text) ?? {};
  } catch {
    return {};
  }
}

function describe(line) {
  if (line.text === null) return t("audit.first");
  const { entry = "", ...rest } = fields(line);
  const about = [rest.analyst, rest.dataset, rest.receipt?.slice(0, 12)].filter(Boolean).join(" · ");
  return `${entry}${about ? `: ${about}` : ""}`;
}

const timeOf = (line) => {
  const { time } = fields(line);
  return time ? moment(time) : "";
};

export function AuditView({ dataset, theorem }) {
  const state = useLoad(() => get(`${datasetPath(dataset)}/ledger`), [dataset]);
  const [lines, setLines] = useState(null);
  const [progress, setProgress] = useState("");
  const [result, setResult] = useState(null);
  const [witness, setWitness] = useState("");
  const { run, busy, fault } = useAction(async () => {
    const server = await post(`${datasetPath(dataset)}/ledger/verification`, {});
    const found = await allLines(dataset, (done, total) => setProgress(t("audit.reading", { done, total })));
    const own = await verifyChain(found);
    setProgress("");
    setLines([...found].reverse());
    setResult({ ...own, server });
  });
  const { shown, controls } = usePages(lines ?? [], 25);
  const noted = witness.trim().toLowerCase();
  const seen = lines?.find((one) => one.hash === noted);
  const matches = result?.ok && result.head === result.server.head;
  return html`<section class="card" aria-labelledby="audit-title">
    <div class="card-head"><h2 id="audit-title">${t("audit.title")}</h2></div>
    <p>${t("audit.about")} <${Why} id="ledger-checkpoint" open=${theorem} word="theorem" /></p>
    <${Fault} fault=${state.fault ?? fault} />
    ${state.found
      ? html`<dl class="facts">
          <dt>${t("audit.head")}</dt>
          <dd><code class="hash">${state.found.head}</code></dd>
          <dt>${t("audit.entries")}</dt>
          <dd>${state.found.entries.toLocaleString("en")}</dd>
        </dl>`
      : html`<${Loading} />`}
    <div class="buttons">
      <button type="button" class="main" disabled=${busy} onClick=${run}>${t("audit.verify")}</button>
      <button type="button" disabled=${lines === null} onClick=${() => save(`${[...lines].reverse().map((one) => JSON.stringify(one)).join("\n")}\n`, `${dataset}-ledger.jsonl`, "application/x-ndjson")}>${t("audit.export")}</button>
    </div>
    <p role="status" aria-live="polite">${progress}</p>
    ${result &&
    html`<${Notice} kind=${matches ? "good" : "bad"} role="status">
      ${matches ? t("audit.good", { entries: result.entries.toLocaleString("en"), charges: result.server.charges, releases: result.server.releases }) : result.ok ? t("audit.moved") : t("audit.bad", { number: result.number })}
    <//>`}
    <${Field} label=${t("audit.witness")} hint=${t("audit.witnesshint")} wide><input class="mono" spellcheck="false" value=${witness} onInput=${(event) => setWitness(event.target.value)} /><//>
    ${noted && (lines === null
      ? html`<p role="status">${t("audit.verifyfirst")}</p>`
      : html`<${Notice} kind=${seen ? "good" : "bad"} role="status">${seen ? t("audit.seen", { number: seen.number + 1 }) : t("audit.unseen")}<//>`)}
    ${lines &&
    html`<div class="scroll" tabindex="0" role="group" aria-label=${t("audit.table")}>
        <table>
          <thead><tr><th scope="col" class="n">${t("audit.number")}</th><th scope="col">${t("audit.time")}</th><th scope="col">${t("audit.entry")}</th><th scope="col">${t("audit.hash")}</th></tr></thead>
          <tbody>
            ${shown.map((one) => html`<tr><td class="n">${one.number + 1}</td><td class="nowrap">${timeOf(one)}</td><td class="any">${describe(one)}</td><td><code class="hash short">${one.hash.slice(0, 16)}…</code></td></tr>`)}
          </tbody>
        </table>
      </div>
      ${controls}`}
  </section>`;
}
