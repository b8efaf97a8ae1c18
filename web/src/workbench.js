// The analyst's workbench: columns on the left; a question, its price and its answer on the right.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { datasetPath, insist, newKey, post } from "./api.js";
import { AnswerCard, isFree, sourceText } from "./answer.js";
import { Builder, EMPTY, STEPS, toSql } from "./builder.js";
import { Chart, estimates } from "./charts.js";
import { Editor, literal, quoted } from "./editor.js";
import { fixOf } from "./fix.js";
import { Field, Meter, Notice, Tabs, Why, charged, html, plainly, reason } from "./ui.js";
import { clip, deviation, duration, label, number, percent, plain, share } from "./format.js";
import { t } from "./texts.js";

const QUOTE_PAUSE = 180; // milliseconds after typing stops
const REHEARSE_PAUSE = 450;

// --- What there is to ask about. ---

function values(column) {
  if (column.kind === "boolean") return t("column.boolean");
  if (column.kind === "category") return null;
  const clock = column.kind === "timestamp";
  const step = column.step ? t("column.step", { step: clock ? duration(column.step) : column.step }) : "";
  const [lower, upper] = [column.lower, column.upper].map((one) => (clock ? one.replace("T", " ").slice(0, 16) : one));
  return `${t("column.range", { lower, upper })}${step}`;
}

function bins(column) {
  if (column.bins === undefined) return column.kind === "category" || column.kind === "boolean" ? null : t("column.nobins");
  return typeof column.bins === "string" ? t("column.by", { unit: column.bins }) : t("column.bins", { edges: column.bins.join(", ") });
}

function Column({ column, insert, theorem }) {
  return html`<details class="column">
    <summary><span class="clip name">${column.name}</span> <span class="kind">${t(`kind.${column.kind}`)}</span></summary>
    ${column.means && html`<p>${column.means}</p>`}
    <p class="quiet">${t(`meaning.${column.kind}`)}</p>
    ${values(column) && html`<p>${values(column)}</p>`}
    ${column.labels &&
    html`<p class="labels">
      ${column.labels.slice(0, 60).map(
        (one) => html`<button type="button" class="chip" onClick=${() => insert(literal(one))} title=${clip(one)}><span class="clip">${clip(one)}</span></button>`,
      )}
      ${column.labels.length > 60 && html`<span class="quiet">${t("column.more", { count: (column.labels.length - 60).toLocaleString("en") })}</span>`}
    </p>`}
    ${bins(column) && html`<p class="quiet">${bins(column)}</p>`}
    <p class="quiet">${column.otherwise === undefined ? t("column.otherwise") : t("column.countsas", { value: label(column.otherwise) })} <${Why} id=${column.otherwise === undefined ? "sensitivity" : "complete-columns"} open=${theorem} /></p>
    <button type="button" class="small" onClick=${() => insert(quoted(column.name))}>${t("column.insert")}</button>
  </details>`;
}

// A further table that may be joined, or a computed column.
function Further({ table, insert }) {
  return html`<details class="column">
    <summary><span class="clip name">${table.name}</span> <span class="kind">${t(table.columns.length > 0 ? "editor.table" : "kind.computed")}</span></summary>
    ${table.columns.length > 0 && html`<p class="labels">${table.columns.map((one) => html`<button type="button" class="chip" onClick=${() => insert(quoted(one))}><span class="clip">${clip(one)}</span></button>`)}</p>`}
    <p class="quiet">${table.how}</p>
    <button type="button" class="small" onClick=${() => insert(quoted(table.name))}>${t("column.insert")}</button>
  </details>`;
}

export function Columns({ schema, insert, theorem }) {
  const { unit } = schema;
  return html`<aside class="columns" aria-labelledby="columns-title">
    <h2 id="columns-title">${t("columns.title")}</h2>
    <p class="quiet">
      ${t(unit.protects === "person" ? "columns.person" : "columns.row", { table: schema.table, size: number(unit.size), rows: unit.rows, id: unit.id })} <${Why} id=${unit.protects === "person" ? "people" : "one-person"} open=${theorem} />
    </p>
    ${schema.columns.map((column) => html`<${Column} key=${column.name} column=${column} insert=${insert} theorem=${theorem} />`)}
    ${(schema.tables ?? []).map((table) => html`<${Further} key=${table.name} table=${table} insert=${insert} />`)}
    ${unit.left_out && html`<p class="quiet">${unit.left_out}</p>`}
  </aside>`;
}

// --- The price before it is paid. ---

// Made-up tables are small. A rehearsal asks for a tolerance that is finer by as much, and counts and sums are drawn at the
// declared size: values, noise and intervals are then as large as they will be.
export function finer(within, factor) {
  const [, digits, sign] = /^([0-9.]+)(%?)$/.exec(String(within).trim()) ?? [];
  if (digits === undefined) return undefined;
  const scaled = Number((Number(digits) / factor).toPrecision(6));
  return sign ? `${scaled}%` : scaled;
}

export function enlarge(answer, factor) {
  const grows = answer.columns.map((column) => column.kind === "estimate" && column.lower === 0);
  const scale = (value) => (value === null || value === undefined ? value : plain(value) * factor);
  const move = (cell) => cell && { ...cell, value: scale(cell.value), low: scale(cell.low), high: scale(cell.high) };
  return { ...answer, rows: answer.rows.map((row) => row.map((cell, place) => (grows[place] ? move(cell) : cell))) };
}

// The theorem behind the accuracy that an offer foresees.
function accuracyTheorem(offer) {
  if (offer.source !== "measured") return "derivation";
  return /laplace/i.test(offer.mechanism ?? "") ? "laplace-accuracy" : "gaussian-accuracy";
}

// What else there is where a price is too high: ask more roughly, or allow this question more than one call may take.
function Ways({ alternatives, rougher, allow }) {
  // Tolerances of several columns do not fit the one field.
  const { within, price } = alternatives.find((one) => /^[\d.]+%?$/.test(one.within ?? "")) ?? {};
  const most = alternatives.find((one) => one.max_price)?.max_price;
  return html`<div class="buttons">
    ${within && html`<button type="button" class="small" onClick=${() => rougher(within)}>${t("ways.rougher", { within, price })}</button>`}
    ${most && html`<button type="button" class="small" onClick=${() => allow(most)}>${t("ways.allow", { price: most })}</button>`}
  </div>`;
}

function Offer({ offer, budget, rehearsal, waiting, wrong, theorem, ways }) {
  const why = (id) => html`<${Why} id=${id} open=${theorem} />`;
  if (!offer) {
    const none = wrong?.away ? "offer.away" : wrong?.line ? "offer.wrong" : wrong ? "offer.refused" : "offer.none";
    return html`<p class="quiet">${t(waiting ? "offer.waiting" : none)}</p>`;
  }
  const price = share(offer.price.share);
  const accuracy = (offer.accuracy ?? []).filter((one) => one.within !== null && one.within !== undefined);
  return html`<div class=${waiting ? "offer stale" : "offer"}>
    <p class="offer-price">
      ${isFree(offer.price) ? html`<strong class="freeprice">${t("offer.free")}</strong>` : html`<strong>${percent(price)}</strong> ${t("offer.ofbudget")}`}
      ${why(isFree(offer.price) ? "post-processing" : "filters")}
      ${isFree(offer.price) && html`<span class="tag">${sourceText(offer.source)}</span>`}
    </p>
    <${Meter} left=${budget.yours ?? budget.left} price=${price} label=${t("offer.meter", { price: percent(price), left: percent(budget.yours ?? budget.left) })} />
    <p class="quiet">${t("offer.left", { left: percent(budget.yours ?? budget.left) })}</p>
    ${accuracy.length > 0 &&
    html`<ul class="plainlist">
      ${accuracy.map(
        (one) => html`<li>${t("offer.within", { column: clip(one.column), within: deviation(one.within), confidence: percent(offer.confidence) })}${offer.foreseen && one.low !== null ? html` <span class="quiet">${t("offer.range", { low: deviation(one.low), high: deviation(one.high ?? Infinity) })}</span>` : ""} ${why(accuracyTheorem(offer))}</li>`,
      )}
    </ul>`}
    ${isFree(offer.price) && html`<p>${t(`freewhy.${offer.source}`)}</p>`}
    ${!offer.affordable && html`<${Notice} kind="warn"><p>${plainly(offer.explanation).replace(/^You have \S+ of the budget left\. /, "")}</p>${ways && ways(offer)}<//>`}
    ${offer.about && html`<p class="quiet">${offer.about}</p>`}
    ${rehearsal &&
    estimates(rehearsal).length > 0 &&
    html`<figure class="rehearsal">
      <${Chart} answer=${rehearsal} column=${estimates(rehearsal)[0]} pale />
      <figcaption>${t("offer.rehearsal")}</figcaption>
    </figure>`}
  </div>`;
}

export function Workbench({ dataset, schema, budget, refresh, theorem, start, toDashboard, truthOf, onAnswer }) {
  const [mode, setMode] = useState(start?.question ? "sql" : "builder");
  const first = schema.columns.find((column) => column.kind === "category");
  const [built, setBuilt] = useState({ ...EMPTY, groups: first ? [first.name] : [] });
  const [given, setGiven] = useState(() => ({ text: start?.question ?? toSql({ ...EMPTY, groups: first ? [first.name] : [] }, schema) }));
  const [text, setText] = useState(given.text);
  const replace = (found) => {
    setText(found);
    setGiven({ text: found });
  };
  const [within, setWithin] = useState(start?.within ?? String(schema.defaults.within ?? ""));
  const [confidence, setConfidence] = useState(start?.confidence ?? schema.defaults.confidence);
  const [offer, setOffer] = useState();
  const [allowed, setAllowed] = useState({}); // more than one call may usually take, for one question
  const [rehearsal, setRehearsal] = useState();
  const [problem, setProblem] = useState();
  const [pricing, setPricing] = useState(false);
  const [round, setRound] = useState(0);
  const [answer, setAnswer] = useState();
  const [fault, setFault] = useState();
  const [busy, setBusy] = useState(false);
  const [status, setStatus] = useState("");
  const pending = useRef(null);
  const path = datasetPath(dataset);
  const question = mode === "sql" ? text : toSql(built, schema);
  const asked = useMemo(() => {
    const found = { question, confidence };
    const wish = within.trim();
    if (wish !== "") found.within = /^[0-9]+(\.[0-9]+)?$/.test(wish) ? Number(wish) : wish;
    if (allowed.question === question) found.max_price = allowed.share;
    return found;
  }, [question, within, confidence, allowed]);
  const ways = (said) => html`<${Ways} alternatives=${said.alternatives ?? []} rougher=${setWithin} allow=${(most) => setAllowed({ question, share: most })} />`;

  useLayoutEffect(() => {
    if (!start) return;
    setMode("sql");
    replace(start.question);
    if (start.within !== undefined) setWithin(String(start.within));
    if (start.confidence !== undefined) setConfidence(start.confidence);
    if (start.answer) setAnswer({ found: start.answer, asked: start.asked ?? { question: start.question } });
  }, [start]);

  useEffect(() => {
    if (question.trim() === "") {
      setOffer(undefined);
      setProblem(undefined);
      setRehearsal(undefined);
      return undefined;
    }
    const stopper = new AbortController();
    setPricing(true);
    setFault(undefined);
    const timer = setTimeout(async () => {
      try {
        const found = await post(`${path}/quotes`, asked, { signal: stopper.signal });
        setOffer(found);
        setProblem(undefined);
        setPricing(false);
        performance.mark("dodona-quote");
        if (isFree(found.price)) {
          setRehearsal(undefined);
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, REHEARSE_PAUSE - QUOTE_PAUSE));
        if (stopper.signal.aborted) return;
        const factor = schema.unit.size / schema.rehearsal_rows;
        const small = finer(asked.within ?? schema.defaults.within, factor);
        const body = small === undefined ? asked : { ...asked, within: small };
        const tried = await post(`${path}/rehearsals`, body, { signal: stopper.signal }).catch(() => undefined);
        if (!stopper.signal.aborted) setRehearsal(tried && (small === undefined ? tried : enlarge(tried, factor)));
      } catch (caught) {
        if (caught.name === "AbortError") return;
        setPricing(false);
        setOffer(undefined);
        setRehearsal(undefined);
        setProblem(caught);
      }
    }, QUOTE_PAUSE);
    return () => {
      clearTimeout(timer);
      stopper.abort();
    };
  }, [asked, path, round]);

  const ask = async () => {
    if (busy || question.trim() === "") return;
    setBusy(true);
    setFault(undefined);
    setStatus("");
    const wish = JSON.stringify([dataset, asked]);
    if (pending.current?.wish !== wish) pending.current = { wish, key: start?.key && start.question === question ? start.key : newKey() };
    const { key } = pending.current;
    try {
      const found = await insist(`${path}/answers`, asked, key, { waiting: (_fault, attempt) => setStatus(t("ask.retrying", { attempt })) });
      pending.current = null;
      setAnswer({ found, asked, key });
      setStatus(t("ask.done"));
      onAnswer?.(asked, found, key);
      refresh();
      setRound((before) => before + 1);
    } catch (caught) {
      setStatus("");
      setFault(caught);
    } finally {
      setBusy(false);
    }
  };

  const requestApproval = async () => {
    const key = pending.current?.key ?? newKey();
    try {
      const { max_price: _allowed, ...wanted } = asked; // the owner decides
      const found = await post(`${path}/requests`, wanted, { key });
      pending.current = null;
      onAnswer?.(asked, null, found.key);
      setFault(undefined);
      setStatus(t("ask.requested"));
    } catch (caught) {
      setFault(caught);
    }
  };

  const shown = fault ?? problem;
  const done = answer && answer.asked === asked && status;
  const fix = mode === "sql" ? fixOf(shown, text, schema) : null;
  const repair = () => {
    setFault(undefined);
    replace(text.slice(0, fix.from) + fix.text + text.slice(fix.to));
  };
  const insert = (word) => {
    setMode("sql");
    replace(`${question}${question === "" || /\s$/.test(question) ? "" : " "}${word}`);
  };
  const tooDear = shown?.code === "price-above-limit";
  const step = Math.max(0, STEPS.indexOf(within.trim()));

  return html`<div class="bench">
    <${Columns} schema=${schema} insert=${insert} theorem=${theorem} />
    <div class="benchmain">
      <section class="card" aria-labelledby="ask-title">
        <div class="card-head">
          <h2 id="ask-title">${t("ask.title")}</h2>
          <${Tabs} label=${t("ask.how")} chosen=${mode} choose=${(name) => {
            if (name === "sql" && mode === "builder") replace(toSql(built, schema));
            setMode(name);
          }} tabs=${[["builder", t("ask.builder")], ["sql", t("ask.sql")]]} />
        </div>
        <div class="askgrid">
          <div>
            <div hidden=${mode !== "sql"}>
              <${Editor} given=${given} text=${text} schema=${schema} problem=${problem} onText=${setText} onAsk=${() => ask()} />
            </div>
            ${mode === "builder" && html`<${Builder} schema=${schema} question=${built} change=${setBuilt} />`}
            ${shown &&
            html`<div class="notice bad" role="alert">
              <p class="lines">${reason(shown)}</p>
              <p class="quiet">${charged(shown)}</p>
              ${shown === fault && ways(shown)}
              <div class="buttons">
                ${fix !== null && html`<button type="button" class="small" onClick=${repair}>${t("ask.fix", { fix: clip(fix.text) })}</button>`}
                ${tooDear && schema.limits.approvals && html`<button type="button" class="small" onClick=${requestApproval}>${t("ask.request")}</button>`}
                ${shown.away && html`<button type="button" class="small" onClick=${() => (fault ? ask() : setRound(round + 1))}>${t("retry")}</button>`}
              </div>
            </div>`}
            <div class="row accuracy">
              <${Field} label=${t("ask.accuracy")} hint=${t("ask.accuracyhint")}>
                <input type="range" min="0" max=${STEPS.length - 1} step="1" value=${step} aria-valuetext=${STEPS[step]} onInput=${(event) => setWithin(STEPS[Number(event.target.value)])} />
              <//>
              <${Field} label=${t("ask.within")}><input class="short mono" value=${within} onInput=${(event) => setWithin(event.target.value)} spellcheck="false" /><//>
              <${Field} label=${t("ask.confidence")}>
                <select value=${String(confidence)} onChange=${(event) => setConfidence(Number(event.target.value))}>
                  ${[...new Set([0.9, 0.95, 0.99, schema.defaults.confidence, confidence])].sort().map((one) => html`<option value=${String(one)}>${percent(one)}</option>`)}
                </select>
              <//>
            </div>
            <div class="buttons">
              <button type="button" class="main" disabled=${busy || question.trim() === ""} onClick=${ask}>
                ${busy ? t("ask.busy") : offer && isFree(offer.price) ? t("ask.askfree") : t("ask.ask")}
              </button>
              <p class="status" role="status" aria-live="polite">${busy || done || !answer ? status : ""}</p>
            </div>
          </div>
          <div class="offerbox" role="group" aria-label=${t("offer.title")}>
            <h3>${t("offer.title")}</h3>
            <div aria-live="polite"><${Offer} offer=${offer} budget=${budget} rehearsal=${rehearsal} waiting=${pricing} wrong=${problem} theorem=${theorem} ways=${!fault && ways} /></div>
          </div>
        </div>
      </section>
      ${answer &&
      html`<${AnswerCard} dataset=${dataset} answer=${answer.found} asked=${answer.asked} theorem=${theorem} toDashboard=${toDashboard} truth=${truthOf?.(answer.asked.question)} />`}
    </div>
  </div>`;
}
