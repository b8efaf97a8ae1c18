// A new dataset: choose a table, draft its declaration, look at what came from the rows, confirm, and create the ledger.
import { useState } from "preact/hooks";
import { call, datasetPath, get, post } from "./api.js";
import { meaning } from "./learn.js";
import { CheckResults } from "./owner.js";
import { Fault, Field, Loading, Notice, Why, html, useAction, useLoad } from "./ui.js";
import { clip, number } from "./format.js";
import { has, t } from "./texts.js";

const STEPS = ["source", "review", "confirm", "done"];
const draftPath = (name) => `/drafts/${encodeURIComponent(name)}`;

function Progress({ at }) {
  return html`<ol class="progress" aria-label=${t("wizard.steps")}>
    ${STEPS.map((one, place) => html`<li aria-current=${one === at ? "step" : undefined} class=${place < STEPS.indexOf(at) ? "past" : ""}>${t(`wizard.step.${one}`)}</li>`)}
  </ol>`;
}

function Source({ drafted, theorem }) {
  const state = useLoad(() => get("/drafts"), []);
  const [chosen, setSource] = useState("");
  const [database, setDatabase] = useState("");
  const [name, setName] = useState("");
  const [table, setTable] = useState("");
  const [protects, setProtects] = useState("");
  const [id, setId] = useState("");
  const [epsilon, setEpsilon] = useState("1");
  const files = state.found?.files ?? [];
  const source = chosen || files[0]?.name || "database"; // what the list shows before anything is chosen
  const other = source === "database";
  const { run, busy, fault } = useAction(async () => {
    const body = { source: other ? `env:${database.trim()}` : source, epsilon: epsilon.trim() };
    if (table.trim()) body.table = table.trim();
    if (protects) body.protects = protects;
    if (protects === "person") body.id = id.trim();
    await post(draftPath(name.trim()), body);
    drafted(name.trim());
  });
  return html`<form class="stack" onSubmit=${(event) => (event.preventDefault(), run())}>
    <p>${t("wizard.about")}</p>
    <${Fault} fault=${state.fault} retry=${state.reload} />
    ${(state.found?.drafts ?? []).length > 0 &&
    html`<${Notice}>${t("wizard.resume")} ${state.found.drafts.map((one) => html`<button type="button" class="small" onClick=${() => drafted(one)}>${clip(one)}</button> `)}<//>`}
    ${state.found
      ? html`<div class="row">
          <${Field} label=${t("wizard.source")}>
            <select value=${source} onChange=${(event) => setSource(event.target.value)}>
              ${files.map((one) => html`<option value=${one.name}>${clip(one.name)} (${number(Math.ceil(one.bytes / 1024))} KB)</option>`)}
              <option value="database">${t("wizard.database")}</option>
            </select>
          <//>
          ${other && html`<${Field} label=${t("wizard.variable")} hint=${t("wizard.variablehint")}><input class="mono" required pattern="[A-Za-z_][A-Za-z0-9_]*" placeholder="STAYS_DATABASE" value=${database} onInput=${(event) => setDatabase(event.target.value)} /><//>`}
          <${Field} label=${t("wizard.name")} hint=${t("wizard.namehint")}><input required pattern="[a-z0-9][a-z0-9_\\-]*" maxlength="60" value=${name} onInput=${(event) => setName(event.target.value)} /><//>
          <${Field} label=${t("wizard.table")} hint=${t(other ? "wizard.tablehintdatabase" : "wizard.tablehint")}><input required=${other} value=${table} onInput=${(event) => setTable(event.target.value)} /><//>
        </div>`
      : !state.fault && html`<${Loading} />`}
    <div class="row">
      <${Field} label=${t("wizard.protects")} hint=${t("wizard.protectshint")}>
        <select value=${protects} onChange=${(event) => setProtects(event.target.value)}>
          <option value="">${t("wizard.guess")}</option>
          <option value="person">${t("wizard.person")}</option>
          <option value="row">${t("wizard.row")}</option>
        </select>
      <//>
      ${protects === "person" && html`<${Field} label=${t("wizard.id")}><input required value=${id} onInput=${(event) => setId(event.target.value)} /><//>`}
      <${Field} label=${t("wizard.epsilon")}><input required inputmode="decimal" value=${epsilon} onInput=${(event) => setEpsilon(event.target.value)} /><//>
    </div>
    ${Number(epsilon) > 0 && html`<${Notice}><p>${meaning({ epsilon: String(Number(epsilon)), delta: "1/1000000" })} <${Why} id="one-person" open=${theorem} word="theorem" /></p><//>`}
    <${Fault} fault=${fault} />
    <div class="buttons"><button class="main" disabled=${busy || !state.found}>${busy ? t("wizard.drafting") : t("wizard.draft")}</button></div>
  </form>`;
}

// What a value of a dataset file means, in words.
function wordsFor(name) {
  const [, column, part] = /^columns\.(.+)\.(\w+)$/.exec(name) ?? [];
  const key = `review.${part ?? name}`;
  return has(key) && t(key, { column: clip(column ?? "") });
}

function Review({ name, next, theorem }) {
  const state = useLoad(() => get(draftPath(name)), [name]);
  const [values, setValues] = useState({});
  const [found, setFound] = useState(null);
  const [saved, setSaved] = useState(false);
  const review = state.found?.review ?? [];
  const changed = Object.fromEntries(Object.entries(values).filter(([key, value]) => value !== review.find((one) => one.name === key)?.value));
  const save = useAction(async () => {
    if (Object.keys(changed).length > 0) await call("PUT", `${draftPath(name)}/values`, { body: { values: changed } });
    setValues({});
    setSaved(true);
    state.reload();
  });
  const check = useAction(async () => setFound(await post(`${datasetPath(name)}/checks`)));
  return html`<div class="stack">
    <div class="private">
      <p class="private-mark"><strong>${t("check.private")}</strong> ${t("wizard.reviewprivate")}</p>
      <${Fault} fault=${state.fault} retry=${state.reload} />
      ${state.loading && !state.found && html`<${Loading} />`}
      ${review.length > 0 &&
      html`<div class="scroll" tabindex="0" role="group" aria-label=${t("wizard.reviewtable")}>
        <table>
          <thead><tr><th scope="col">${t("wizard.what")}</th><th scope="col">${t("wizard.value")}</th></tr></thead>
          <tbody>
            ${review.map(
              (one) =>
                html`<tr>
                  <td>${wordsFor(one.name)} <code class="quiet">${clip(one.name)}</code></td>
                  <td><input class="mono wideinput" aria-label=${one.name} value=${values[one.name] ?? one.value ?? ""} onInput=${(event) => setValues({ ...values, [one.name]: event.target.value })} /></td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>`}
      ${state.found && review.length === 0 && html`<p>${t("wizard.nothing")}</p>`}
      <${Fault} fault=${save.fault} />
      <div class="buttons">
        <button type="button" disabled=${save.busy || Object.keys(changed).length === 0} onClick=${save.run}>${t("wizard.savevalues")}</button>
        <button type="button" disabled=${check.busy} onClick=${check.run}>${check.busy ? t("check.busy") : t("check.go")}</button>
        <p class="status" role="status">${saved && Object.keys(changed).length === 0 ? t("wizard.saved") : ""}</p>
      </div>
      <${Fault} fault=${check.fault} />
      ${found && html`<${CheckResults} found=${found} theorem=${theorem} />`}
    </div>
    ${state.found && html`<details><summary>${t("wizard.file")}</summary><pre class="sqlbox" tabindex="0"><code>${state.found.text}</code></pre></details>`}
    <div class="buttons"><button type="button" class="main" disabled=${!state.found || Object.keys(changed).length > 0} onClick=${next}>${t("wizard.next")}</button></div>
  </div>`;
}

function Confirm({ name, back, done }) {
  const { run, busy, fault } = useAction(async () => {
    await post(`${datasetPath(name)}/confirmation`);
    await post(`${draftPath(name)}/ledger`);
    for (let attempt = 0; attempt < 20; attempt += 1) {
      // every process of the server looks for new datasets once a second
      const there = await get(`${datasetPath(name)}/budget`).then(() => true, () => false);
      if (there) break;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    done();
  });
  return html`<div class="stack">
    <p>${t("wizard.confirmtext")}</p>
    <${Notice} kind="warn">${t("wizard.ledgertext")}<//>
    <${Fault} fault=${fault} />
    <div class="buttons">
      <button type="button" onClick=${back}>${t("tour.back")}</button>
      <button type="button" class="main" disabled=${busy} onClick=${run}>${t("wizard.create")}</button>
    </div>
  </div>`;
}

export function Wizard({ open, reload, theorem }) {
  const [step, setStep] = useState("source");
  const [name, setName] = useState("");
  return html`<section class="card" aria-labelledby="wizard-title">
    <div class="card-head"><h2 id="wizard-title">${t("wizard.title")}</h2></div>
    <${Progress} at=${step} />
    ${step === "source" && html`<${Source} theorem=${theorem} drafted=${(one) => (setName(one), setStep("review"))} />`}
    ${step === "review" && html`<${Review} name=${name} theorem=${theorem} next=${() => setStep("confirm")} />`}
    ${step === "confirm" && html`<${Confirm} name=${name} back=${() => setStep("review")} done=${() => (reload(), setStep("done"))} />`}
    ${step === "done" &&
    html`<${Notice} kind="good" role="status">${t("wizard.donetext", { name: clip(name) })}<//>
      <div class="buttons"><button type="button" class="main" onClick=${() => open(name)}>${t("wizard.open")}</button></div>`}
  </section>`;
}
