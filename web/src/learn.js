// Teaching: what a budget means in plain odds, the page of each theorem, and a guided first visit.
import { useEffect, useState } from "preact/hooks";
import { Dialog, Fault, Field, Loading, Meter, Why, html, useLoad } from "./ui.js";
import { number, percent, share, unitFraction } from "./format.js";
import { t } from "./texts.js";

const round = (value) => (value >= 100 ? Math.ceil(value).toLocaleString("en") : String(Math.ceil(value * 100) / 100));

// --- What a budget means. ---

// How often a guess that somebody is in the table may be right, if it is wrong about others at a given rate: the
// definition of (epsilon, delta), applied to the guess and to its opposite.
export function power(epsilon, delta, alarm) {
  return Math.min(1, Math.exp(epsilon) * alarm + delta, 1 - Math.exp(-epsilon) * Math.max(0, 1 - delta - alarm));
}

export function odds(epsilon) {
  return round(Math.exp(epsilon));
}

// With delta, odds may grow more for answers that hardly ever come out: those are named with their probability.
const RARE = 1000;

export function factor({ epsilon, delta }) {
  return odds(share(delta) === 0 ? share(epsilon) : share(epsilon) - Math.log1p(-1 / RARE));
}

export function meaning(budget) {
  const rare = RARE * share(budget.delta);
  if (rare === 0) return t("odds.pure", { factor: factor(budget) });
  return t("odds.approximate", { factor: factor(budget), rare: percent(Math.min(1, rare)) });
}

export function BudgetView({ schema, budget, theorem }) {
  const [epsilon, setEpsilon] = useState(Number(share(budget.epsilon)));
  const delta = share(budget.delta);
  const total = share(budget.epsilon);
  const spent = budget.epsilon_spent ?? 0;
  const person = schema.unit.protects === "person";
  return html`<section class="card prose" aria-labelledby="budget-title">
    <div class="card-head"><h2 id="budget-title">${t("budget.title")}</h2></div>
    <p>${t(person ? "budget.person" : "budget.row", { rows: schema.unit.rows })}</p>
    <div class="facts-row">
      <div><strong>${percent(budget.spent)}</strong><span>${t("budget.spent")} <${Why} id="filters" open=${theorem} /></span></div>
      <div><strong>${percent(budget.yours ?? budget.left)}</strong><span>${t(budget.yours === undefined ? "budget.left" : "budget.yours")} <${Why} id="filters" open=${theorem} /></span></div>
      <div><strong>${number(total)}</strong><span>${t("budget.epsilon")} <${Why} id="one-person" open=${theorem} /></span></div>
      <div><strong>${unitFraction(budget.delta)}</strong><span>${t("budget.delta")} <${Why} id=${budget.accountant === "renyi" ? "renyi-conversion" : "filters"} open=${theorem} /></span></div>
    </div>
    <${Meter} left=${budget.left} />
    <h3>${t("odds.title")}</h3>
    <p>${meaning(budget)} <${Why} id="one-person" open=${theorem} word="theorem" /></p>
    <p class="quiet">${t("odds.spent", { epsilon: number(spent), factor: odds(spent) })} <${Why} id="odometer" open=${theorem} /></p>
    <${Field} label=${t("odds.slider", { epsilon: number(epsilon) })}>
      <input type="range" min="0.01" max=${Math.max(5, total)} step="0.01" value=${epsilon} onInput=${(event) => setEpsilon(Number(event.target.value))} />
    <//>
    <div class="scroll" tabindex="0" role="group" aria-label=${t("odds.table")}>
      <table>
        <caption>${t("odds.caption", { epsilon: number(epsilon) })}</caption>
        <thead><tr><th scope="col">${t("odds.alarm")}</th><th scope="col" class="n">${t("odds.power")}</th><th scope="col" class="n">${t("odds.guess")}</th></tr></thead>
        <tbody>
          ${[0.001, 0.01, 0.05, 0.1, 0.25].map(
            (alarm) => html`<tr><td>${percent(alarm)}</td><td class="n">${percent(power(epsilon, delta, alarm))}</td><td class="n quiet">${percent(alarm)}</td></tr>`,
          )}
        </tbody>
      </table>
    </div>
    <p class="quiet">${t("odds.note")} <${Why} id="one-person" open=${theorem} word="theorem" /></p>
    <h3>${t("budget.howtitle")}</h3>
    <ul>
      <li>${t("budget.how1")} <${Why} id="release" open=${theorem} word="theorem" /></li>
      <li>${t("budget.how2")} <${Why} id="post-processing" open=${theorem} word="theorem" /></li>
      <li>${t("budget.how3")} <${Why} id="filters" open=${theorem} word="theorem" /></li>
    </ul>
  </section>`;
}

// --- Pages of theory: Markdown, shown as text. ---

function inline(text, open) {
  const parts = text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*|\[[^\]]+\]\([^)]+\))/);
  return parts.map((part) => {
    if (part.startsWith("`")) return html`<code>${part.slice(1, -1)}</code>`;
    if (part.startsWith("**")) return html`<strong>${part.slice(2, -2)}</strong>`;
    if (/^\*[^*]/.test(part) && part.endsWith("*")) return html`<em>${part.slice(1, -1)}</em>`;
    const link = /^\[([^\]]+)\]\(([a-z0-9-]+)\.md[^)]*\)$/.exec(part);
    if (link) return html`<button type="button" class="link" onClick=${() => open(link[2])}>${link[1]}</button>`;
    const other = /^\[([^\]]+)\]\([^)]+\)$/.exec(part);
    return other ? other[1] : part;
  });
}

const ITEM = /^\s*(?:[-*]|\d+\.) /;

export function Markdown({ text, open }) {
  const blocks = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    if (line.startsWith("```")) {
      const end = lines.findIndex((one, place) => place > at && one.startsWith("```"));
      const stop = end < 0 ? lines.length : end;
      blocks.push(html`<pre class="sqlbox" tabindex="0"><code>${lines.slice(at + 1, stop).join("\n")}</code></pre>`);
      at = stop + 1;
    } else if (/^#{1,4} /.test(line)) {
      const level = line.indexOf(" ");
      blocks.push(level === 1 ? null : level === 2 ? html`<h3>${line.slice(level + 1)}</h3>` : html`<h4>${line.slice(level + 1)}</h4>`);
      at += 1;
    } else if (ITEM.test(line)) {
      const items = [];
      const ordered = /\d/.test(ITEM.exec(line)[0]);
      while (at < lines.length && lines[at].trim() !== "" && !lines[at].startsWith("#")) {
        if (ITEM.test(lines[at])) items.push(lines[at].replace(ITEM, ""));
        else items[items.length - 1] += ` ${lines[at].trim()}`;
        at += 1;
      }
      const list = items.map((one) => html`<li>${inline(one, open)}</li>`);
      blocks.push(ordered ? html`<ol>${list}</ol>` : html`<ul>${list}</ul>`);
    } else if (line.startsWith("|")) {
      const rows = [];
      while (at < lines.length && lines[at].startsWith("|")) {
        if (!/^\|[\s:|-]+\|$/.test(lines[at])) rows.push(lines[at].slice(1, -1).split("|"));
        at += 1;
      }
      blocks.push(html`<div class="scroll" tabindex="0" role="group" aria-label=${t("theory.table")}><table><tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${inline(cell.trim(), open)}</td>`)}</tr>`)}</tbody></table></div>`);
    } else if (line.trim() === "") at += 1;
    else {
      const start = at;
      while (at < lines.length && lines[at].trim() !== "" && !/^(#|```|\||\s*(?:[-*]|\d+\.) )/.test(lines[at])) at += 1;
      at = Math.max(at, start + 1);
      blocks.push(html`<p>${inline(lines.slice(start, at).join(" "), open)}</p>`);
    }
  }
  return html`<div class="markdown">${blocks}</div>`;
}

export function TheoremDialog({ id, open, close }) {
  const state = useLoad(async () => {
    if (id === null) return null;
    const reply = await fetch(`/theory/${encodeURIComponent(id)}.md`);
    if (!reply.ok) return t("theory.missing");
    return (await reply.text()).split(/\n## (?:Code|Tests|Patches|Patch|Faults)\b/)[0];
  }, [id]);
  return html`<${Dialog} title=${t("theory.title", { id: id ?? "" })} open=${id !== null} close=${close} wide>
    ${state.fault && html`<${Fault} fault=${state.fault} />`}
    ${state.found ? html`<${Markdown} text=${state.found} open=${open} />` : html`<${Loading} />`}
  <//>`;
}

// --- A guided first visit to the made-up hospital, with the truth beside the answers. ---

export function Tour({ tour, step, go, close, load, answered }) {
  const stops = tour.steps;
  const stop = stops[step];
  useEffect(() => {
    if (stop.question) load({ question: stop.question, within: stop.within });
  }, [step]);
  const last = step === stops.length - 1;
  return html`<section class="tour" aria-labelledby="tour-title">
    <div class="card-head">
      <h2 id="tour-title">${t(`tour.${stop.id}.title`)}</h2>
      <span class="tag">${t("tour.step", { at: step + 1, of: stops.length })}</span>
      <button type="button" class="plain" aria-label=${t("tour.leave")} onClick=${close}>×</button>
    </div>
    <p aria-live="polite">${t(`tour.${stop.id}.text`)}</p>
    ${stop.question && answered && html`<p class="quiet">${t("tour.truth")}</p>`}
    <div class="buttons">
      <button type="button" disabled=${step === 0} onClick=${() => go(step - 1)}>${t("tour.back")}</button>
      ${last && html`<a class="button" href=${`#/${encodeURIComponent(tour.dataset)}/budget`}>${t("nav.budget")}</a>`}
      <button type="button" class="main" onClick=${() => (last ? close() : go(step + 1))}>${t(last ? "tour.end" : "tour.next")}</button>
    </div>
  </section>`;
}
