// What an analyst keeps: past questions with notes, dashboards, and requests for approval.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call, datasetPath, get, newKey, post } from "./api.js";
import { AnswerTable, Figure } from "./answer.js";
import { Chart, estimates } from "./charts.js";
import { Code, Dialog, Fault, Field, Loading, Notice, Why, html, useAction, useLoad, usePages } from "./ui.js";
import { clip, moment, percent } from "./format.js";
import { t } from "./texts.js";

const MOST = 1000; // of a page of the history

export const saved = (dataset, kind) => `${datasetPath(dataset)}/saved/${kind}`;
const put = (dataset, kind, name, content) => call("PUT", `${saved(dataset, kind)}/${encodeURIComponent(name)}`, { body: { content } });
const remove = (dataset, kind, name) => call("DELETE", `${saved(dataset, kind)}/${encodeURIComponent(name)}`);

export async function allCharges(dataset) {
  const charges = [];
  for (let after = 0; after !== null; ) {
    const found = await get(`${datasetPath(dataset)}/history?after=${after}&limit=${MOST}`);
    charges.push(...found.charges);
    after = found.next;
  }
  return charges;
}

// The tolerance that a question was asked with is in no ledger: the page keeps it for its reader, under the key.
export const rememberAsked = (dataset, key, asked) => put(dataset, "asked", key, asked).catch(() => undefined);
export const askedUnder = (dataset, key) => get(`${saved(dataset, "asked")}/${encodeURIComponent(key)}`).then((found) => found.content, () => null);

// --- History. ---

const focus = (element) => element?.focus();

function Note({ dataset, receipt, text, changed }) {
  const [draft, setDraft] = useState("");
  const [open, setOpen] = useState(false);
  const [back, setBack] = useState(false); // the keyboard goes on where it left
  const leave = () => {
    setBack(true);
    setOpen(false);
  };
  const { run, busy, fault } = useAction(async () => {
    if (draft.trim() === "") await remove(dataset, "notes", receipt).catch(() => undefined);
    else await put(dataset, "notes", receipt, { text: draft });
    changed(receipt, draft.trim());
    leave();
  });
  if (!open) {
    return html`${text && html`<p class="note">${text}</p>`}
      <button type="button" class="small" ref=${back ? focus : undefined} onClick=${() => (setDraft(text ?? ""), setOpen(true))}>${t(text ? "note.change" : "note.add")}</button>`;
  }
  return html`<form class="noteform" onSubmit=${(event) => (event.preventDefault(), run())}>
    <textarea rows="2" maxlength="4000" ref=${focus} aria-label=${t("note.label")} value=${draft} onInput=${(event) => setDraft(event.target.value)}></textarea>
    <div class="buttons">
      <button class="small" disabled=${busy}>${t("save")}</button>
      <button type="button" class="small" onClick=${leave}>${t("cancel")}</button>
    </div>
    <${Fault} fault=${fault} />
  </form>`;
}

export function HistoryView({ dataset, account, again, theorem }) {
  const [search, setSearch] = useState("");
  const charges = useLoad(() => allCharges(dataset), [dataset]);
  const kept = useLoad(() => get(saved(dataset, "notes")), [dataset]);
  const [notes, setNotes] = useState({});
  useEffect(() => {
    if (!kept.found) return;
    const stored = Object.fromEntries(kept.found.saved.map((one) => [one.name, one.content.text]));
    setNotes((written) => ({ ...stored, ...written })); // what was written meanwhile is newer
  }, [kept.found]);
  const mine = useMemo(() => (charges.found ?? []).filter((one) => one.analyst === account).reverse(), [charges.found, account]);
  const words = search.toLowerCase();
  const found = mine.filter((one) => `${one.text} ${notes[one.receipt] ?? ""}`.toLowerCase().includes(words));
  const { shown, controls } = usePages(found, 25);
  const others = (charges.found ?? []).length - mine.length;
  const { run, busy, fault } = useAction(async (charge) => {
    const reply = await get(`${datasetPath(dataset)}/answers/${encodeURIComponent(charge.key)}`);
    const asked = (await askedUnder(dataset, charge.key)) ?? { question: charge.text };
    again({ question: asked.question ?? charge.text, within: asked.within, confidence: asked.confidence, answer: reply.answers ? reply.answers[0] : reply, asked });
  });
  return html`<section class="card" aria-labelledby="history-title">
    <div class="card-head"><h2 id="history-title">${t("history.title")}</h2></div>
    <p class="quiet">${t("history.about")} ${others > 0 ? t("history.others", { count: others }) : ""} <${Why} id="filters" open=${theorem} /></p>
    <${Field} label=${t("history.search")}><input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} /><//>
    <${Fault} fault=${charges.fault ?? fault} retry=${charges.reload} />
    ${!charges.found && !charges.fault && html`<${Loading} />`}
    ${charges.found && found.length === 0 && html`<p>${t(mine.length === 0 ? "history.none" : "history.nomatch")}</p>`}
    <ul class="list">
      ${shown.map(
        (one) =>
          html`<li key=${one.receipt}>
            <div class="list-head">
              <time datetime=${one.time}>${moment(one.time)}</time>
              <span class="tag">${percent(one.share)}</span>
              ${!one.answered && html`<span class="tag warn">${t("history.unanswered")}</span>`}
            </div>
            <${Code} text=${one.text} />
            <div class="buttons">
              ${one.key && one.answered && html`<button type="button" class="small" disabled=${busy} onClick=${() => run(one)}>${t("history.again")}</button>`}
              <${Note} dataset=${dataset} receipt=${one.receipt} text=${notes[one.receipt]} changed=${(name, text) => setNotes((before) => ({ ...before, [name]: text }))} />
            </div>
          </li>`,
      )}
    </ul>
    ${controls}
  </section>`;
}

// --- Dashboards. ---

export function SaveDialog({ dataset, card, close }) {
  const known = useLoad(() => get(saved(dataset, "dashboards")), [dataset, card]);
  const [name, setName] = useState("");
  const [title, setTitle] = useState("");
  const { run, busy, fault } = useAction(async () => {
    const now = await get(saved(dataset, "dashboards")); // the list above may be late, and a card would replace all others
    const before = now.saved.find((one) => one.name === name.trim());
    const cards = [...(before?.content.cards ?? []), { ...card, title: title.trim() }];
    await put(dataset, "dashboards", name.trim(), { cards });
    close();
  });
  return html`<${Dialog} title=${t("dashboard.save")} open=${card !== null} close=${close}>
    <form class="stack" onSubmit=${(event) => (event.preventDefault(), run())}>
      <${Field} label=${t("dashboard.name")}>
        <input required maxlength="100" list="dashboards" value=${name} onInput=${(event) => setName(event.target.value)} />
      <//>
      <datalist id="dashboards">${(known.found?.saved ?? []).map((one) => html`<option value=${one.name}></option>`)}</datalist>
      <${Field} label=${t("dashboard.cardtitle")}><input maxlength="200" value=${title} onInput=${(event) => setTitle(event.target.value)} /><//>
      <${Fault} fault=${fault} />
      <div class="buttons"><button class="main" disabled=${busy}>${t("save")}</button></div>
    </form>
  <//>`;
}

function Card({ dataset, card, round, removeCard, open, theorem }) {
  const { title, column, ...asked } = card;
  const state = useLoad(() => post(`${datasetPath(dataset)}/answers`, { ...asked, max_price: 0 }, { key: newKey() }), [dataset, asked.question, round]);
  const answer = state.found;
  const place = answer && (answer.columns.findIndex((one) => one.kind === "estimate" && one.name === column) + 1 || estimates(answer)[0] + 1) - 1;
  return html`<section class="card" aria-label=${clip(title || asked.question)}>
    <div class="card-head">
      <h3>${title || clip(asked.question)}</h3>
      <div class="buttons">
        <button type="button" class="small" onClick=${() => open(asked)}>${t("dashboard.open")}</button>
        <button type="button" class="small" onClick=${removeCard}>${t("dashboard.remove")}</button>
      </div>
    </div>
    ${state.loading && !answer && html`<${Loading} />`}
    ${state.fault &&
    (state.fault.code === "price-above-maximum"
      ? html`<${Notice} kind="warn"><p>${t("dashboard.changed", { price: percent(state.fault.price) })} <${Why} id="filters" open=${theorem} /></p><button type="button" class="small" onClick=${() => open(asked)}>${t("dashboard.price")}</button><//>`
      : html`<${Fault} fault=${state.fault} retry=${state.reload} />`)}
    ${answer && html`<${Figure} answer=${answer} column=${place} theorem=${theorem} /><${Chart} answer=${answer} column=${place} /><details><summary>${t("answer.table")}</summary><${AnswerTable} answer=${answer} theorem=${theorem} /></details>`}
  </section>`;
}

export function DashboardsView({ dataset, open, theorem }) {
  const known = useLoad(() => get(saved(dataset, "dashboards")), [dataset]);
  const [chosen, setChosen] = useState(null);
  const [round, setRound] = useState(0);
  const list = known.found?.saved ?? [];
  const shown = list.find((one) => one.name === chosen) ?? list[0];
  const { run, fault } = useAction(async (cards) => {
    if (cards.length === 0) await remove(dataset, "dashboards", shown.name);
    else await put(dataset, "dashboards", shown.name, { cards });
    known.reload();
  });
  if (!known.found) return known.fault ? html`<${Fault} fault=${known.fault} retry=${known.reload} />` : html`<${Loading} />`;
  if (!shown) return html`<section class="card"><h2>${t("nav.dashboards")}</h2><p>${t("dashboard.none")}</p></section>`;
  const { cards } = shown.content;
  return html`<div>
    <div class="toolbar">
      <h2>${clip(shown.name)}</h2>
      ${list.length > 1 &&
      html`<${Field} label=${t("dashboard.choose")}>
        <select value=${shown.name} onChange=${(event) => setChosen(event.target.value)}>${list.map((one) => html`<option value=${one.name}>${clip(one.name)}</option>`)}</select>
      <//>`}
      <button type="button" onClick=${() => setRound(round + 1)}>${t("dashboard.refresh")}</button>
      <span><span class="tag free">${t("dashboard.free")}</span> <${Why} id="post-processing" open=${theorem} /></span>
    </div>
    <${Fault} fault=${fault} />
    <div class="grid">
      ${cards.map(
        (card, place) =>
          html`<${Card} key=${`${shown.name}-${place}-${card.question}`} dataset=${dataset} card=${card} round=${round} open=${open} theorem=${theorem} removeCard=${() => run(cards.toSpliced(place, 1))} />`,
      )}
    </div>
  </div>`;
}

// --- Requests for approval. ---

export function RequestsView({ dataset, ask, theorem }) {
  const state = useLoad(() => get(`${datasetPath(dataset)}/requests`), [dataset]);
  const { run, busy } = useAction(async (one) => {
    const asked = (await askedUnder(dataset, one.key)) ?? { question: one.text };
    ask({ ...asked, key: one.key });
  });
  const list = [...(state.found?.requests ?? [])].reverse();
  return html`<section class="card" aria-labelledby="requests-title">
    <div class="card-head"><h2 id="requests-title">${t("requests.title")}</h2></div>
    <p class="quiet">${t("requests.about")} <${Why} id="filters" open=${theorem} /></p>
    <${Fault} fault=${state.fault} retry=${state.reload} />
    ${state.found && list.length === 0 && html`<p>${t("requests.none")}</p>`}
    <ul class="list">
      ${list.map(
        (one) =>
          html`<li key=${one.id}>
            <div class="list-head">
              <time datetime=${one.time}>${moment(one.time)}</time>
              <span class="tag">${percent(one.share)}</span>
              <span class="tag ${one.state}">${t(`request.${one.state}`)}</span>
            </div>
            <${Code} text=${one.text} />
            ${one.state === "granted" && html`<button type="button" class="small" disabled=${busy} onClick=${() => run(one)}>${t("requests.ask")}</button>`}
          </li>`,
      )}
    </ul>
  </section>`;
}
