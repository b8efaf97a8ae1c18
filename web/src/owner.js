// The owner's console: what was spent, by whom and how fast; caps, approvals, analysts; and acts that cannot be undone,
// each with what it means in words before it is done.
import { useMemo, useState } from "preact/hooks";
import { call, datasetPath, get, post } from "./api.js";
import { Drawing } from "./charts.js";
import { factor, meaning, odds } from "./learn.js";
import { allCharges } from "./saved.js";
import { Code, Dialog, Fault, Field, Loading, Meter, Notice, Why, html, useAction, useLoad, usePages } from "./ui.js";
import { clip, day, moment, number, percent, share, unitFraction } from "./format.js";
import { t } from "./texts.js";

const DAY = 86400000;
const MOST_SERIES = 5;
const dayOf = (time) => time.slice(0, 10);
const isoDay = (at) => new Date(at).toISOString().slice(0, 10);
const shortDay = (name) => new Date(name).toLocaleDateString("en", { month: "short", day: "numeric", timeZone: "UTC" });
const sum = (values) => [...values].reduce((total, one) => total + one, 0);

// --- Burn-down. ---

// What was left at the end of each day, and what each analyst took. It ends at what is left now, also where something else
// than a question took from the budget.
export function burnDown(charges, leftNow, now = Date.now()) {
  if (charges.length === 0) return [];
  const byDay = new Map();
  for (const one of charges) {
    const found = byDay.get(dayOf(one.time)) ?? new Map();
    const name = one.analyst ?? "–";
    found.set(name, (found.get(name) ?? 0) + share(one.share));
    byDay.set(dayOf(one.time), found);
  }
  const days = [];
  const last = Math.max(Date.parse(dayOf(charges.at(-1).time)), Date.parse(isoDay(now)));
  for (let at = Date.parse(dayOf(charges[0].time)); at <= last; at += DAY) days.push({ day: isoDay(at), taken: byDay.get(isoDay(at)) ?? new Map() });
  let left = leftNow;
  for (const one of days.toReversed()) {
    one.left = left;
    left = Math.min(1, left + sum(one.taken.values()));
  }
  days.start = left;
  return days;
}

// How many days the budget lasts at the mean pace of the last two weeks; today is not over, and counts only if there is no
// other day. From five days on also how soon and how late, by two standard errors of that mean. Null if nothing was spent.
export function forecast(days) {
  const past = days.length > 1 ? days.slice(-15, -1) : days;
  const spent = past.map((one) => sum(one.taken.values()));
  const count = spent.length;
  const pace = sum(spent) / count;
  if (!(pace > 0)) return null;
  const { left } = days.at(-1);
  const found = { count, pace, lasts: left / pace };
  if (count < 5) return found;
  const error = 2 * Math.sqrt(sum(spent.map((one) => (one - pace) ** 2)) / (count - 1) / count);
  return { ...found, soon: left / (pace + error), late: pace > error ? left / (pace - error) : Infinity };
}

export function burnDrawing(days, names, width) {
  const [left, top, tall, low] = [64, 26, 150, 80];
  const base = top + tall + 44; // where the bars of the lower part begin
  const ahead = forecast(days);
  const further = ahead === null ? 0 : Math.min(Math.ceil(ahead.lasts), Math.max(7, days.length));
  const slot = (width - left - 16) / Math.max(2, days.length + further);
  const y = (value) => top + tall * (1 - value);
  const most = Math.max(1e-12, ...days.map((one) => sum(one.taken.values())));
  const shapes = [0, 0.5, 1].flatMap((tick) => [
    { shape: "line", kind: tick === 0 ? "zero" : "grid", x1: left, x2: width - 12, y1: y(tick), y2: y(tick) },
    { shape: "text", kind: "tick", x: left - 8, y: y(tick) + 4, anchor: "end", text: `${100 * tick}%` },
  ]);
  shapes.push({ shape: "text", kind: "tick", x: left, y: top - 12, anchor: "start", text: t("burn.lefttitle") });
  shapes.push({ shape: "text", kind: "tick", x: left, y: base - 10, anchor: "start", text: t("burn.takentitle") });
  for (const part of [0, 1]) {
    const at = base + low * (1 - part);
    shapes.push({ shape: "line", kind: part === 0 ? "zero" : "grid", x1: left, x2: width - 12, y1: at, y2: at });
    shapes.push({ shape: "text", kind: "tick", x: left - 8, y: at + 4, anchor: "end", text: percent(part * most) });
  }
  days.forEach((one, place) => {
    let at = base + low;
    names.forEach((name, series) => {
      const rest = name === null; // everybody who has no colour of their own
      const taken = rest ? sum([...one.taken].map(([who, part]) => (names.includes(who) ? 0 : part))) : (one.taken.get(name) ?? 0);
      if (taken === 0) return;
      const height = (low * taken) / most;
      at -= height;
      const title = t("burn.day", { day: one.day, name: rest ? t("burn.others") : clip(name), share: percent(taken) });
      shapes.push({ shape: "rect", kind: `series${series}`, x: left + slot * place + 2, width: Math.max(1, Math.min(40, slot - 4)), y: at, height, round: 2, title });
    });
  });
  const path = [[left, y(days.start)], ...days.map((one, place) => [left + slot * (place + 1), y(one.left)])];
  if (further > 0) {
    const [x1, y1] = path.at(-1);
    const x2 = x1 + slot * further;
    const until = (lasts) => [x1 + slot * Math.min(further, lasts), y(Math.max(0, days.at(-1).left * (1 - further / lasts)))];
    if (ahead.soon !== undefined) shapes.push({ shape: "area", kind: "band", points: [[x1, y1], until(ahead.soon), ...(ahead.soon < further ? [[x2, y(0)]] : []), until(ahead.late)] });
    const [xEnd, yEnd] = until(ahead.lasts);
    shapes.push({ shape: "line", kind: "ahead", x1, y1, x2: xEnd, y2: yEnd });
  }
  shapes.push({ shape: "path", kind: "curve", points: path });
  const every = Math.max(1, Math.ceil(60 / slot));
  days.forEach((one, place) => {
    if (place % every === 0) shapes.push({ shape: "text", kind: "tick", x: left + slot * place + 2, y: base + low + 18, anchor: "start", text: shortDay(one.day) });
  });
  return { width, height: base + low + 26, shapes };
}

function forecastText(ahead) {
  if (ahead === null) return t("burn.quiet");
  const pace = percent(ahead.pace);
  const until = (lasts) => day(Date.now() + lasts * DAY);
  if (ahead.lasts > 3650) return t("burn.years", { pace });
  const text = t(ahead.count === 1 ? "burn.forecastone" : "burn.forecast", { count: ahead.count, pace, days: Math.floor(ahead.lasts).toLocaleString("en"), day: until(ahead.lasts) });
  if (ahead.soon === undefined) return text;
  return `${text} ${ahead.late > 3650 ? t("burn.notbefore", { soon: until(ahead.soon) }) : t("burn.range", { soon: until(ahead.soon), late: until(ahead.late) })}`;
}

function BurnDown({ charges, budget }) {
  const days = useMemo(() => burnDown(charges, share(budget.left)), [charges, budget.left]);
  const names = useMemo(() => {
    const totals = new Map();
    for (const { taken } of days) for (const [name, part] of taken) totals.set(name, (totals.get(name) ?? 0) + part);
    return [...totals.keys()].sort((one, other) => totals.get(other) - totals.get(one));
  }, [days]);
  const shown = names.length > MOST_SERIES + 1 ? [...names.slice(0, MOST_SERIES), null] : names;
  const make = useMemo(() => (width) => burnDrawing(days, shown, width), [days, names]);
  const before = 1 - (days.start ?? share(budget.left));
  const early = before > 1e-9 && html`<p class="quiet">${t("burn.before", { share: percent(before) })}</p>`;
  if (days.length === 0) return html`<p class="quiet">${t("burn.none")}</p>${early}`;
  return html`<${Drawing} make=${make} title=${t("burn.title", { left: percent(budget.left) })} />
    <p class="legend">${shown.map((name, place) => html`<span><i class=${`swatch series${place}`}></i>${name === null ? t("burn.others") : clip(name)}</span>`)}</p>
    <p>${forecastText(forecast(days))}</p>
    ${early}
    <details>
      <summary>${t("burn.table")}</summary>
      <div class="scroll" tabindex="0" role="group" aria-label=${t("burn.table")}>
        <table>
          <thead><tr><th scope="col">${t("burn.dayhead")}</th><th scope="col" class="n">${t("burn.left")}</th>${names.map((name) => html`<th scope="col" class="n">${clip(name)}</th>`)}</tr></thead>
          <tbody>
            ${[...days].reverse().slice(0, 60).map((one) => html`<tr><td class="nowrap">${one.day}</td><td class="n">${percent(one.left)}</td>${names.map((name) => html`<td class="n">${one.taken.has(name) ? percent(one.taken.get(name)) : "–"}</td>`)}</tr>`)}
          </tbody>
        </table>
      </div>
    </details>`;
}

// --- Acts, each with a preview in words. ---

export function Act({ open, close, title, preview, danger, confirmWord, act, ready = true, children }) {
  const [typed, setTyped] = useState("");
  const { run, busy, fault } = useAction(async () => {
    await act();
    setTyped("");
    close(true);
  });
  return html`<${Dialog} title=${title} open=${open} close=${() => close(false)}>
    <form class="stack" onSubmit=${(event) => (event.preventDefault(), run())}>
      ${children}
      <div class="notice ${danger ? "warn" : "info"}" aria-live="polite">${preview}</div>
      ${confirmWord && html`<${Field} label=${t("act.type", { word: confirmWord })}><input required pattern=${confirmWord.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")} value=${typed} onInput=${(event) => setTyped(event.target.value)} autocomplete="off" /><//>`}
      <${Fault} fault=${fault} />
      <div class="buttons">
        <button class=${danger ? "danger" : "main"} disabled=${busy || !ready}>${title}</button>
        <button type="button" onClick=${() => close(false)}>${t("cancel")}</button>
      </div>
    </form>
  <//>`;
}

function Raise({ path, budget, open, close, theorem }) {
  const [epsilon, setEpsilon] = useState("");
  const wanted = Number(epsilon);
  const before = share(budget.epsilon);
  const preview =
    !(wanted > before)
      ? t("raise.more", { epsilon: number(before) })
      : html`<p>${t("raise.preview", { before: factor(budget), after: factor({ epsilon: wanted, delta: budget.delta }) })}</p><p>${meaning({ epsilon: wanted, delta: budget.delta })} <${Why} id="one-person" open=${theorem} word="theorem" /></p><p>${t("raise.forever")}</p>`;
  return html`<${Act} open=${open} close=${close} title=${t("raise.title")} preview=${preview} danger ready=${wanted > before} act=${() => post(`${path}/budget`, { epsilon })}>
    <${Field} label=${t("raise.epsilon", { epsilon: number(before) })}><input required inputmode="decimal" value=${epsilon} onInput=${(event) => setEpsilon(event.target.value)} /><//>
  <//>`;
}

function Admit({ path, budget, open, close, analysts, theorem }) {
  const [name, setName] = useState("");
  const [part, setPart] = useState("100%");
  const known = analysts.find((one) => one.name === name.trim());
  const value = part.trim().endsWith("%") ? Number(part.trim().slice(0, -1)) / 100 : share(part.trim());
  const preview =
    name.trim() === "" || !(value > 0)
      ? t("admit.fill")
      : html`<p>${t(known ? "admit.change" : "admit.preview", { name: clip(name), share: percent(value) })}</p><p>${t("admit.odds", { name: clip(name), factor: factor(budget) })} <${Why} id="filters" open=${theorem} word="theorem" /></p>`;
  return html`<${Act} open=${open} close=${close} title=${t("admit.title")} preview=${preview} ready=${name.trim() !== "" && value > 0} act=${() => call("PUT", `${path}/analysts/${encodeURIComponent(name.trim())}`, { body: { share: part.trim() } })}>
    <${Field} label=${t("admit.name")}><input required maxlength="200" value=${name} onInput=${(event) => setName(event.target.value)} /><//>
    <${Field} label=${t("admit.share")}><input required value=${part} onInput=${(event) => setPart(event.target.value)} /><//>
  <//>`;
}

export function OwnerOverview({ dataset, schema, budget, refresh, door, theorem }) {
  const path = datasetPath(dataset);
  const charges = useLoad(() => allCharges(dataset), [dataset, budget.head]);
  const [open, setOpen] = useState(null);
  const [who, setWho] = useState(null);
  const close = (done) => {
    setOpen(null);
    if (done) refresh();
  };
  const analysts = budget.analysts ?? [];
  return html`<div class="stackwide">
    ${budget.closed && html`<${Notice} kind="warn">${t("owner.closed")}<//>`}
    ${door !== "owners" && html`<${Notice}>${t("owner.elsewhere")}<//>`}
    <section class="card" aria-labelledby="spent-title">
      <div class="card-head"><h2 id="spent-title">${t("owner.budget")}</h2></div>
      <div class="facts-row">
        <div><strong>${percent(budget.left)}</strong><span>${t("budget.left")} <${Why} id="filters" open=${theorem} /></span></div>
        <div><strong>${number(budget.charges)}</strong><span>${t("owner.charges")}</span></div>
        <div><strong>${number(budget.epsilon_spent)}</strong><span>${t("owner.epsilonspent", { epsilon: number(share(budget.epsilon)) })} <${Why} id="odometer" open=${theorem} /></span></div>
        <div><strong>${unitFraction(budget.delta)}</strong><span>${t("budget.delta")} <${Why} id="one-person" open=${theorem} /></span></div>
      </div>
      <${Meter} left=${budget.left} />
      <p>${meaning(budget)} <${Why} id="one-person" open=${theorem} word="theorem" /></p>
      <${Fault} fault=${charges.fault} retry=${charges.reload} />
      ${charges.found ? html`<${BurnDown} charges=${charges.found} budget=${budget} />` : html`<${Loading} />`}
      ${door === "owners" &&
      html`<div class="buttons">
        <button type="button" disabled=${budget.closed} onClick=${() => setOpen("raise")}>${t("raise.title")}</button>
        <button type="button" class="danger" disabled=${budget.closed} onClick=${() => setOpen("close")}>${t("closing.title")}</button>
      </div>`}
    </section>
    <section class="card" aria-labelledby="analysts-title">
      <div class="card-head"><h2 id="analysts-title">${t("owner.analysts")}</h2></div>
      ${analysts.length === 0 && html`<p>${t("owner.noanalysts")}</p>`}
      <div class="scroll" hidden=${analysts.length === 0} tabindex="0" role="group" aria-label=${t("owner.analysts")}>
        <table>
          <thead><tr><th scope="col">${t("owner.name")}</th><th scope="col" class="n">${t("owner.share")}</th><th scope="col" class="n">${t("owner.spent")} <${Why} id="filters" open=${theorem} /></th><th scope="col" class="n">${t("owner.left")}</th><td></td></tr></thead>
          <tbody>
            ${analysts.map(
              (one) =>
                html`<tr>
                  <td><span class="clip">${one.name}</span> ${one.stopped && html`<span class="tag warn">${t("owner.stopped")}</span>`}</td>
                  <td class="n">${percent(one.share)}</td>
                  <td class="n">${percent(one.spent)}</td>
                  <td class="n">${percent(one.left)}</td>
                  <td>${door === "owners" && !one.stopped && html`<button type="button" class="small" onClick=${() => (setWho(one), setOpen("stop"))}>${t("stop.button")}</button>`}</td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
      ${door === "owners" && html`<div class="buttons"><button type="button" onClick=${() => setOpen("admit")}>${t("admit.title")}</button></div>`}
    </section>
    <${Raise} path=${path} budget=${budget} open=${open === "raise"} close=${close} theorem=${theorem} />
    <${Admit} path=${path} budget=${budget} analysts=${analysts} open=${open === "admit"} close=${close} theorem=${theorem} />
    <${Act} open=${open === "close"} close=${close} danger title=${t("closing.title")} confirmWord=${dataset} act=${() => post(`${path}/close`)}
      preview=${html`<p>${t("closing.preview", { left: percent(budget.left) })}</p><p>${t("closing.odds", { factor: odds(budget.epsilon_spent) })} <${Why} id="odometer" open=${theorem} word="theorem" /></p>`} />
    <${Act} open=${open === "stop"} close=${close} danger title=${t("stop.title", { name: clip(who?.name ?? "") })} act=${() => call("DELETE", `${path}/analysts/${encodeURIComponent(who.name)}`)}
      preview=${html`<p>${t("stop.preview", { name: clip(who?.name ?? ""), spent: percent(share(who?.spent) * share(who?.share)) })}</p><p>${t("stop.odds", { factor: factor(budget) })} <${Why} id="filters" open=${theorem} word="theorem" /></p>`} />
  </div>`;
}

// --- Every charge. ---

export function ChargesView({ dataset, theorem }) {
  const charges = useLoad(() => allCharges(dataset), [dataset]);
  const [search, setSearch] = useState("");
  const [who, setWho] = useState("");
  const all = charges.found ?? [];
  const names = [...new Set(all.map((one) => one.analyst).filter(Boolean))].sort();
  const words = search.toLowerCase();
  const found = useMemo(
    () => [...all].reverse().filter((one) => (who === "" || one.analyst === who) && (one.text ?? "").toLowerCase().includes(words)),
    [all, who, words],
  );
  const { shown, controls } = usePages(found, 50);
  const total = sum(found.map((one) => share(one.share)));
  return html`<section class="card" aria-labelledby="charges-title">
    <div class="card-head"><h2 id="charges-title">${t("charges.title")}</h2></div>
    <div class="row">
      <${Field} label=${t("history.search")}><input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} /><//>
      <${Field} label=${t("charges.who")}><select value=${who} onChange=${(event) => setWho(event.target.value)}><option value="">${t("charges.everyone")}</option>${names.map((one) => html`<option value=${one}>${clip(one)}</option>`)}</select><//>
      <p class="quiet viewhint">${t("charges.sum", { count: found.length.toLocaleString("en"), share: percent(total) })} <${Why} id="filters" open=${theorem} /></p>
    </div>
    <${Fault} fault=${charges.fault} retry=${charges.reload} />
    ${!charges.found && !charges.fault && html`<${Loading} />`}
    ${charges.found && found.length === 0 ? html`<p>${t(all.length === 0 ? "burn.none" : "history.nomatch")}</p>` : ""}
    <div class="scroll" hidden=${found.length === 0} tabindex="0" role="group" aria-label=${t("charges.title")}>
      <table>
        <thead><tr><th scope="col">${t("audit.time")}</th><th scope="col">${t("charges.analyst")}</th><th scope="col">${t("charges.question")}</th><th scope="col" class="n">${t("charges.price")}</th></tr></thead>
        <tbody>
          ${shown.map((one) => html`<tr><td class="nowrap">${moment(one.time)}</td><td>${one.analyst ?? "–"}</td><td><${Code} text=${one.text ?? t("charges.hidden")} /></td><td class="n">${percent(one.share)}</td></tr>`)}
        </tbody>
      </table>
    </div>
    ${controls}
  </section>`;
}

// --- Caps and approvals. ---

const CAPS = ["question", "analyst_day", "dataset_day"];
const isShare = (text) => /^[0-9.]+\s*%?$/.test(text.trim());

export function LimitsView({ dataset, schema, refresh, theorem }) {
  const path = datasetPath(dataset);
  const before = schema.limits;
  const [limits, setLimits] = useState(Object.fromEntries(CAPS.map((one) => [one, before[one] === null ? "" : percent(before[one])])));
  const [approvals, setApprovals] = useState(before.approvals);
  const [done, setDone] = useState(false);
  const { run, busy, fault } = useAction(async () => {
    const body = { approvals };
    for (const one of CAPS) if (limits[one].trim() !== "") body[one] = limits[one].trim();
    await call("PUT", `${path}/limits`, { body });
    setDone(true);
    refresh();
  });
  return html`<section class="card" aria-labelledby="limits-title">
    <div class="card-head"><h2 id="limits-title">${t("limits.title")}</h2></div>
    <p class="quiet">${t("limits.about")} <${Why} id="filters" open=${theorem} /></p>
    <form class="stack" onSubmit=${(event) => (event.preventDefault(), run())}>
      <div class="row">
        ${CAPS.map(
          (one) => html`<${Field} label=${t(`limits.${one}`)}><input placeholder=${t("limits.none")} value=${limits[one]} onInput=${(event) => (setDone(false), setLimits({ ...limits, [one]: event.target.value }))} /><//>`,
        )}
      </div>
      <label class="check"><input type="checkbox" checked=${approvals} onChange=${(event) => (setDone(false), setApprovals(event.target.checked))} />${t("limits.approvals")}</label>
      <ul class="plainlist" aria-live="polite">${CAPS.filter((one) => isShare(limits[one])).map((one) => html`<li>${t(`limits.means.${one}`, { share: limits[one] })}</li>`)}</ul>
      <${Fault} fault=${fault} />
      <div class="buttons"><button class="main" disabled=${busy}>${t("limits.set")}</button></div>
      <p role="status">${done ? t("limits.done") : ""}</p>
    </form>
  </section>`;
}

export function ApprovalsView({ dataset, refresh, theorem }) {
  const path = datasetPath(dataset);
  const state = useLoad(() => get(`${path}/requests`), [path]);
  const { run, busy, fault } = useAction(async (id, grant) => {
    await post(`${path}/requests/${encodeURIComponent(id)}/decision`, { grant });
    state.reload();
    refresh();
  });
  const list = [...(state.found?.requests ?? [])].reverse();
  return html`<section class="card" aria-labelledby="approvals-title">
    <div class="card-head"><h2 id="approvals-title">${t("approvals.title")}</h2></div>
    <p class="quiet">${t("approvals.about")} <${Why} id="filters" open=${theorem} /></p>
    <${Fault} fault=${state.fault ?? fault} retry=${state.reload} />
    ${state.found && list.length === 0 && html`<p>${t("approvals.none")}</p>`}
    <ul class="list">
      ${list.map(
        (one) =>
          html`<li key=${one.id}>
            <div class="list-head"><strong>${clip(one.analyst ?? "–")}</strong><time datetime=${one.time}>${moment(one.time)}</time><span class="tag">${percent(one.share)}</span><span class="tag ${one.state}">${t(`request.${one.state}`)}</span></div>
            <${Code} text=${one.text} />
            ${one.state === "waiting" &&
            html`<p class="quiet">${t("approvals.means", { name: clip(one.analyst ?? "–"), share: percent(one.share) })}</p>
              <div class="buttons">
                <button type="button" class="small main" disabled=${busy} onClick=${() => run(one.id, true)}>${t("approvals.grant")}</button>
                <button type="button" class="small" disabled=${busy} onClick=${() => run(one.id, false)}>${t("approvals.decline")}</button>
              </div>`}
            ${one.decided_by && html`<p class="quiet">${t("approvals.by", { name: clip(one.decided_by) })}</p>`}
          </li>`,
      )}
    </ul>
  </section>`;
}

// --- Exact counts, for the owner alone. ---

export function CheckResults({ found, theorem }) {
  const facts = [["rows", found.rows], ["people", found.people], ["counting", found.counting], ["cut", found.cut], ["nobody", found.nobody]];
  return html`<div class="private">
    <p class="private-mark"><strong>${t("check.private")}</strong> ${t("check.privatetext")} <${Why} id="people" open=${theorem} /></p>
    <div class="facts-row">${facts.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => html`<div><strong>${number(value)}</strong><span>${t(`check.${name}`)}</span></div>`)}</div>
    <div class="scroll" tabindex="0" role="group" aria-label=${t("check.table")}>
      <table>
        <thead><tr>${["column", "kind", "missing", "outside", "below", "above"].map((one, place) => html`<th scope="col" class=${place > 1 ? "n" : ""}>${t(`check.${one}`)}</th>`)}</tr></thead>
        <tbody>${found.columns.map((one) => html`<tr><td><span class="clip">${one.name}</span></td><td>${t(`kind.${one.kind}`)}</td>${["missing", "outside", "below", "above"].map((key) => html`<td class=${one[key] ? "n strong" : "n quiet"}>${number(one[key])}</td>`)}</tr>`)}</tbody>
      </table>
    </div>
    ${found.hints.length > 0 && html`<ul>${found.hints.map((one) => html`<li>${one}</li>`)}</ul>`}
  </div>`;
}

export function CheckView({ dataset, theorem }) {
  const [found, setFound] = useState(null);
  const { run, busy, fault } = useAction(async () => setFound(await post(`${datasetPath(dataset)}/checks`)));
  return html`<section class="card" aria-labelledby="check-title">
    <div class="card-head"><h2 id="check-title">${t("check.title")}</h2></div>
    <p>${t("check.about")}</p>
    <div class="buttons"><button type="button" class="main" disabled=${busy} onClick=${run}>${busy ? t("check.busy") : t("check.go")}</button></div>
    <${Fault} fault=${fault} />
    ${found && html`<${CheckResults} found=${found} theorem=${theorem} />`}
  </section>`;
}
