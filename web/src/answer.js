// An answer: a chart with error bars, the table beside it, where it came from, and what to do with it.
import { useMemo, useState } from "preact/hooks";
import { datasetPath, download, newKey, post, save } from "./api.js";
import { Chart, chartKind, estimates, plan, toPicture, untold } from "./charts.js";
import { Dialog, Fault, Field, Notice, Theorems, Why, html, useAction, usePages } from "./ui.js";
import { clip, deviation, digitsOf, interval, label, number, percent, plain, share } from "./format.js";
import { has, t } from "./texts.js";

const PAGE = 50;

export const isFree = (price) => share(price.share) === 0;
export const sourceText = (source) => (has(`source.${source}`) ? t(`source.${source}`) : source);

// The theorem behind the intervals is the last that an answer names.
const intervalTheorem = (answer) => (answer.theorem ?? "").split(/,\s*/).at(-1) || "gaussian-accuracy";

export function AnswerTable({ answer, truth, theorem }) {
  const { shown, controls } = usePages(answer.rows, PAGE);
  const truths = truth && new Map(truth);
  const shapes = useMemo(() => answer.columns.map((_one, place) => ({ digits: digitsOf(answer.rows.map((row) => row[place])), few: untold(answer, place) })), [answer]);
  return html`<div class="scroll tall" tabindex="0" role="group" aria-label=${t("answer.table")}>
      <table class="data">
        <caption>${t(captionOf(answer), { confidence: percent(answer.confidence) })} <${Why} id=${intervalTheorem(answer)} open=${theorem} /></caption>
        <thead>
          <tr>
            ${answer.columns.map((column) =>
              column.kind === "estimate"
                ? html`<th scope="col" class="n">${clip(column.name)}</th><th scope="col" class="n">${t("answer.interval")}</th>`
                : html`<th scope="col">${clip(column.name)}</th>`,
            )}
            ${truths && html`<th scope="col" class="n">${t("answer.truth")}</th>`}
          </tr>
        </thead>
        <tbody>
          ${shown.map(
            (row) =>
              html`<tr>
                ${row.map((cell, place) => {
                  if (answer.columns[place].kind !== "estimate") return html`<td><span class="clip" title=${clip(label(cell))}>${clip(label(cell))}</span></td>`;
                  const few = shapes[place].few(cell);
                  const digits = few ? undefined : shapes[place].digits;
                  const range = cell && cell.low !== undefined && cell.low !== null ? interval(cell, digits) : "–";
                  return html`<td class=${few ? "n quiet" : "n strong"}>${number(cell && typeof cell === "object" ? cell.value : cell, digits)}</td><td class="n quiet">${range}</td>`;
                })}
                ${truths && html`<td class="n truth">${number(truths.get(label(row[0])) ?? truths.get("") ?? null)}</td>`}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${controls}`;
}

// One number large, with how far off it may be.
export function Figure({ answer, column, theorem }) {
  const cell = answer.rows[0]?.[column];
  if (!cell || chartKind(answer) !== "value") return null;
  const far = (plain(cell.high) - plain(cell.low)) / 2;
  return html`<p class="figure"><strong>${number(cell.value, digitsOf([cell]))}</strong>${Number.isFinite(far) && html`<span> ± ${deviation(far)} <${Why} id=${intervalTheorem(answer)} open=${theorem} /></span>`}</p>`;
}

function python(dataset, asked) {
  const within = asked.within === undefined ? "" : `, within=${JSON.stringify(asked.within)}`;
  const text = JSON.stringify(asked.question);
  return [
    "import dodona",
    "",
    `with dodona.connect(${JSON.stringify(location.origin)}, dataset=${JSON.stringify(dataset)}) as data:  # the token: DODONA_TOKEN`,
    `    answer = data.ask(${text}${within})`,
    "    print(answer.to_pandas())",
    "",
  ].join("\n");
}

function Downloads({ dataset, answer, asked, column }) {
  const path = `${datasetPath(dataset)}/answers`;
  // Whatever is downloaded was answered already: a price above nothing is refused.
  const table = (accept, name) => download(path, { body: { ...asked, max_price: 0 }, key: newKey(), accept, name });
  const [snippet, setSnippet] = useState(null);
  const { run, busy, fault } = useAction((what) => what());
  const picture = async () => save(await toPicture(plan(answer, column), answer.question), "answer.png");
  return html`<div class="buttons" role="group" aria-label=${t("answer.downloads")}>
      <button type="button" class="small" disabled=${busy} onClick=${() => run(() => table("text/csv", "answer.csv"))}>CSV</button>
      <button type="button" class="small" disabled=${busy} onClick=${() => run(() => table("application/vnd.apache.arrow.stream", "answer.arrow"))}>Arrow</button>
      <button type="button" class="small" onClick=${() => run(picture)}>PNG</button>
      <button type="button" class="small" onClick=${() => setSnippet(python(dataset, asked))}>Python</button>
      <button type="button" class="small" onClick=${() => save(`${asked.question}\n`, "question.sql", "text/plain")}>SQL</button>
    </div>
    <${Fault} fault=${fault} />
    <${Dialog} title=${t("answer.python")} open=${snippet !== null} close=${() => setSnippet(null)}>
      <p class="quiet">${t("answer.pythonhint")}</p>
      <pre class="sqlbox" tabindex="0"><code>${snippet}</code></pre>
      <button type="button" onClick=${() => navigator.clipboard?.writeText(snippet)}>${t("copy")}</button>
    <//>`;
}

// Whether intervals are only known to hold for rows named beforehand: noisy values decided which rows are shown.
function beforehand(answer) {
  return Boolean(answer.selected) && !answer.simultaneous && !answer.any_choice;
}

function captionOf(answer) {
  if (answer.simultaneous || answer.any_choice) return "answer.captionall";
  return beforehand(answer) ? "answer.captionselected" : "answer.caption";
}

const VIEWS = ["single", "simultaneous", "any_choice", "population"];

export function AnswerCard({ dataset, answer: first, asked, truth, theorem, toDashboard, heading }) {
  const [answer, setAnswer] = useState(first);
  const [view, setView] = useState("single");
  const columns = estimates(answer);
  const [column, setColumn] = useState(columns[0]);
  const [shown, setShown] = useState(first);
  if (shown !== first) { // while rendering, so that no frame shows an old answer under a new question
    setShown(first);
    setAnswer(first);
    setView("single");
    setColumn(estimates(first)[0]);
  }
  const { run, busy, fault } = useAction(async (name) => {
    const found = await post(`${datasetPath(dataset)}/answers`, { ...asked, view: name, max_price: 0 }, { key: newKey() });
    setAnswer(found);
    setView(name);
  });
  const chosen = columns.includes(column) ? column : columns[0];
  const single = chartKind(answer) === "value";
  const beside = !single && !truth && answer.columns.length <= 2 && matchMedia("(min-width: 75rem)").matches;
  return html`<section class="card answer" aria-labelledby="answer-title">
    <div class="card-head">
      <h2 id="answer-title">${heading ?? t("answer.title")}</h2>
      <span class="tag ${isFree(first.price) ? "free" : "paid"}">${isFree(first.price) ? t("free") : t("answer.paid", { price: percent(first.price.share) })}</span>
      <${Why} id=${isFree(first.price) ? "post-processing" : "filters"} open=${theorem} />
      <span class="tag">${sourceText(first.source)}</span>
    </div>
    ${answer.stale && html`<${Notice} kind="warn">${t("answer.stale", { version: answer.version })}<//>`}
    ${beforehand(answer) && html`<${Notice} kind="warn">${t("answer.selected")}<//>`}
    ${answer.reused && !answer.any_choice && html`<${Notice}>${t("answer.reused")}<//>`}
    ${(answer.warnings ?? [])
      .filter((one) => !/simultaneous\(\)|any_choice\(\)/.test(one)) // in words of the page, above
      .map((one) => html`<${Notice} kind="warn">${one}<//>`)}
    ${columns.length > 0 &&
    html`<div class="row">
      ${columns.length > 1 &&
      html`<${Field} label=${t("answer.measure")}>
        <select value=${chosen} onChange=${(event) => setColumn(Number(event.target.value))}>
          ${columns.map((place) => html`<option value=${place}>${clip(answer.columns[place].name)}</option>`)}
        </select>
      <//>`}
      <${Field} label=${t("answer.view")}>
        <select value=${view} disabled=${busy} onChange=${(event) => run(event.target.value)}>
          ${VIEWS.map((one) => html`<option value=${one}>${t(`view.${one}`)}</option>`)}
        </select>
      <//>
      <p class="quiet viewhint">${t(`viewhint.${view}`, { confidence: percent(answer.confidence) })}</p>
    </div>`}
    <${Fault} fault=${fault} />
    ${columns.length > 0 &&
    html`<div class=${beside ? "beside" : "below"}>
      <div><${Figure} answer=${answer} column=${chosen} theorem=${theorem} /><${Chart} answer=${answer} column=${chosen} /></div>
      <div><${AnswerTable} answer=${answer} truth=${truth} theorem=${theorem} /></div>
    </div>`}
    ${columns.length === 0 && html`<${AnswerTable} answer=${answer} theorem=${theorem} />`}
    <div class="card-foot">
      <${Downloads} dataset=${dataset} answer=${answer} asked=${asked} column=${chosen} />
      ${toDashboard && html`<button type="button" class="small" onClick=${() => toDashboard({ ...asked, column: answer.columns[chosen]?.name })}>${t("answer.todashboard")}</button>`}
    </div>
    <details class="facts">
      <summary>${t("answer.how")}</summary>
      <dl>
        <dt>${t("answer.mechanism")}</dt>
        <dd>${answer.mechanism}</dd>
        <dt>${t("answer.theorems")}</dt>
        <dd><${Theorems} ids=${answer.theorem} open=${theorem} /></dd>
        <dt>${t("answer.version")}</dt>
        <dd>${answer.version}</dd>
        ${answer.receipt && html`<dt>${t("answer.receipt")}</dt><dd><code class="hash">${answer.receipt}</code></dd>`}
        <dt>${t("answer.head")}</dt>
        <dd><code class="hash">${answer.head}</code></dd>
        ${answer.about && html`<dt>${t("answer.about")}</dt><dd>${answer.about}</dd>`}
      </dl>
    </details>
  </section>`;
}
