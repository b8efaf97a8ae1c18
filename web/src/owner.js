// The owner's console: what was spent, by whom and how fast; caps, approvals, analysts; and acts that cannot be undone,
// each with what it means in words before it is done.
import { useMemo, useState } from "preact/hooks";
import { call, datasetPath, get, post } from "./api.js";
import { Drawing, WIDE } from "./charts.js";
import { factor, meaning, odds } from "./learn.js";
import { allCharges } from "./saved.js";
import { Code, Dialog, Fault, Field, Loading, Meter, Notice, Why, html, useAction, useLoad, usePages } from "./ui.js";
import { clip, day, moment, number, percent, share, unitFraction } from "./format.js";
import { t } from "./texts.js";

const DAY = 86400000;
const dayOf = (time) => time.slice(0, 10);

// --- Burn-down. ---

// What was left at the end of each day, and what each analyst took.
export function burnDown(charges, now = Date.now()) {
  if (charges.length === 0) return [];
  const byDay = new Map();
  for (const one of charges) {
    const found = byDay.get(dayOf(one.time)) ?? new Map();
    const name = one.analyst ?? "–";
    found.set(name, (found.get(name) ?? 0) + share(one.share));
    byDay.set(dayOf(one.time), found);
  }
  const days = [];
  let left = 1;
  const last = Math.max(Date.parse(dayOf(charges.at(-1).time)), Date.parse(new Date(now).toISOString().slice(0, 10)));
  for (let at = Date.parse(dayOf(charges[0].time)); at <= last; at += DAY) {
    const name = new Date(at).toISOString().slice(0, 10);
    const taken = byDay.get(name) ?? new Map();
    left -= [...taken.values()].reduce((sum, one) => sum + one, 0);
    days.push({ day: name, left: Math.max(0, left), taken });
  }
  return days;
}

// At the mean of the last two weeks, in how many days nothing is left; null if nothing was spent in them.
export function forecast(days) {
  const recent = days.slice(-14);
  const spent = recent.reduce((sum, one) => sum + [...one.taken.values()].reduce((all, share_) => all + share_, 0), 0);
  if (spent === 0 || days.length === 0) return null;
  return days.at(-1).left / (spent / recent.length);
}

export function burnDrawing(days, names) {
  const [width, left, top, tall, low] = [WIDE, 70, 26, 150, 80];
  const base = top + tall + 44; // where the bars of the lower part begin
  const ahead = forecast(days);
  const further = ahead === null ? 0 : Math.min(Math.ceil(ahead), Math.max(7, days.length));
  const slot = (width - left - 16) / Math.max(2, days.length + further);
  const y = (value) => top + tall * (1 - value);
  const sum = (taken) => [...taken.values()].reduce((total, one) => total + one, 0);
  const most = Math.max(1e-12, ...days.map((one) => sum(one.taken)));
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
      const taken = one.taken.get(name) ?? 0;
      if (taken === 0) return;
      const height = (low * taken) / most;
      at -= height;
      const title = t("burn.day", { day: one.day, name, share: percent(taken) });
      shapes.push({ shape: "rect", kind: `series${series % 6}`, x: left + slot * place + 2, width: Math.max(1, Math.min(40, slot - 4)), y: at, height, round: 2, title });
    });
  });
  const path = [[left, y(1)], ...days.map((one, place) => [left + slot * (place + 1), y(one.left)])];
  shapes.push({ shape: "path", kind: "curve", points: path });
  if (further > 0) {
    const end = days.at(-1).left * (1 - further / ahead);
    shapes.push({ shape: "line", kind: "ahead", x1: path.at(-1)[0], y1: path.at(-1)[1], x2: left + slot * (days.length + further), y2: y(Math.max(0, end)) });
  }
  const every = Math.max(1, Math.ceil((days.length * 60) / (width - left)));
  days.forEach((one, place) => {
    if (place % every === 0) shapes.push({ shape: "text", kind: "tick", x: left + slot * place + 2, y: base + low + 18, anchor: "start", text: one.day.slice(5) });
  });
  return { width, height: base + low + 26, shapes };
}

function BurnDown({ charges, budget }) {
  const names = useMemo(() => [...new Set(charges.map((one) => one.analyst ?? "–"))].sort(), [charges]);
  const days = useMemo(() => burnDown(charges), [charges]);
  if (days.length === 0) return html`<p class="quiet">${t("burn.none")}</p>`;
  const ahead = forecast(days);
  const text =
    ahead === null ? t("burn.quiet") : ahead > 3650 ? t("burn.years") : t("burn.forecast", { days: Math.floor(ahead).toLocaleString("en"), day: day(Date.now() + ahead * DAY) });
  return html`<${Drawing} drawing=${burnDrawing(days, names)} title=${t("burn.title", { left: percent(budget.left) })} />
    <p class="legend">${names.map((name, place) => html`<span><i class=${`swatch series${place % 6}`}></i>${clip(name)}</span>`)}</p>
    <p>${text}</p>
    <details>
      <summary>${t("burn.table")}</summary>
      <div class="scroll" tabindex="0" role="group" aria-label=${t("burn.table")}>
        <table>
          <thead><tr><th scope="col">${t("burn.dayhead")}</th><th scope="col" class="n">${t("burn.left")}</th>${names.map((name) => html`<th scope="col" class="n">${clip(name)}</th>`)}</tr></thead>
          <tbody>
            ${[...days].reverse().slice(0, 60).map((one) => html`<tr><td>${one.day}</td><td class="n">${percent(one.left)}</td>${names.map((name) => html`<td class="n">${one.taken.has(name) ? percent(one.taken.get(name)) : "–"}</td>`)}</tr>`)}
          </tbody>
        </table>
      </div>
    </details>`;
}

// --- Acts, each with a preview in words. ---

function Act({ open, close, title, preview, danger, confirmWord, act, children }) {
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
        <button class=${danger ? "danger" : "main"} disabled=${busy}>${title}</button>
        <button type="button" onClick=${() => close(false)}>${t("cancel")}</button>
      </div>
    </form>
  <//>`;
}

function Raise({ path, budget, open, close }) {
  const [epsilon, setEpsilon] = useState("");
  const wanted = Number(epsilon);
  const before = share(budget.epsilon);
  const preview =
    !(wanted > before)
      ? t("raise.more", { epsilon: number(before) })
      : html`<p>${t("raise.preview", { before: factor(budget), after: factor({ epsilon: wanted, delta: budget.delta }) })}</p><p>${meaning({ epsilon: wanted, delta: budget.delta })}</p><p>${t("raise.forever")}</p>`;
  return html`<${Act} open=${open} close=${close} title=${t("raise.title")} preview=${preview} danger act=${() => post(`${path}/budget`, { epsilon })}>
    <${Field} label=${t("raise.epsilon", { epsilon: number(before) })}><input required inputmode="decimal" value=${epsilon} onInput=${(event) => setEpsilon(event.target.value)} /><//>
  <//>`;
}

function Admit({ path, budget, open, close, analysts }) {
  const [name, setName] = useState("");
  const [part, setPart] = useState("100%");
  const known = analysts.find((one) => one.name === name.trim());
  const value = part.trim().endsWith("%") ? Number(part.trim().slice(0, -1)) / 100 : share(part.trim());
  const preview =
    name.trim() === "" || !(value > 0)
      ? t("admit.fill")
      : html`<p>${t(known ? "admit.change" : "admit.preview", { name: clip(name), share: percent(value) })}</p><p>${t("admit.odds", { name: clip(name), factor: factor(budget) })}</p>`;
  return html`<${Act} open=${open} close=${close} title=${t("admit.title")} preview=${preview} act=${() => call("PUT", `${path}/analysts/${encodeURIComponent(name.trim())}`, { body: { share: part.trim() } })}>
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
      <${Meter} spent=${budget.spent} />
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
      <div class="scroll" tabindex="0" role="group" aria-label=${t("owner.analysts")}>
        <table>
          <thead><tr><th scope="col">${t("owner.name")}</th><th scope="col" class="n">${t("owner.share")}</th><th scope="col" class="n">${t("owner.spent")}</th><th scope="col" class="n">${t("owner.left")}</th><td></td></tr></thead>
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
    <${Raise} path=${path} budget=${budget} open=${open === "raise"} close=${close} />
    <${Admit} path=${path} budget=${budget} analysts=${analysts} open=${open === "admit"} close=${close} />
    <${Act} open=${open === "close"} close=${close} danger title=${t("closing.title")} confirmWord=${dataset} act=${() => post(`${path}/close`)}
      preview=${html`<p>${t("closing.preview", { left: percent(budget.left) })}</p><p>${t("closing.odds", { factor: odds(budget.epsilon_spent) })}</p>`} />
    <${Act} open=${open === "stop"} close=${close} danger title=${t("stop.title", { name: clip(who?.name ?? "") })} act=${() => call("DELETE", `${path}/analysts/${encodeURIComponent(who.name)}`)}
      preview=${t("stop.preview", { name: clip(who?.name ?? ""), spent: percent(who?.spent ?? 0) })} />
  </div>`;
}

// --- Every charge. ---

export function ChargesView({ dataset }) {
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
  const sum = found.reduce((total, one) => total + share(one.share), 0);
  return html`<section class="card" aria-labelledby="charges-title">
    <div class="card-head"><h2 id="charges-title">${t("charges.title")}</h2></div>
    <div class="row">
      <${Field} label=${t("history.search")}><input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} /><//>
      <${Field} label=${t("charges.who")}><select value=${who} onChange=${(event) => setWho(event.target.value)}><option value="">${t("charges.everyone")}</option>${names.map((one) => html`<option value=${one}>${clip(one)}</option>`)}</select><//>
      <p class="quiet viewhint">${t("charges.sum", { count: found.length.toLocaleString("en"), share: percent(sum) })}</p>
    </div>
    <${Fault} fault=${charges.fault} retry=${charges.reload} />
    ${!charges.found && !charges.fault && html`<${Loading} />`}
    <div class="scroll" tabindex="0" role="group" aria-label=${t("charges.title")}>
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

export function LimitsView({ dataset, schema, refresh }) {
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
    <p class="quiet">${t("limits.about")}</p>
    <form class="stack" onSubmit=${(event) => (event.preventDefault(), run())}>
      <div class="row">
        ${CAPS.map(
          (one) => html`<${Field} label=${t(`limits.${one}`)}><input placeholder=${t("limits.none")} value=${limits[one]} onInput=${(event) => (setDone(false), setLimits({ ...limits, [one]: event.target.value }))} /><//>`,
        )}
      </div>
      <label class="check"><input type="checkbox" checked=${approvals} onChange=${(event) => (setDone(false), setApprovals(event.target.checked))} />${t("limits.approvals")}</label>
      <ul class="plainlist" aria-live="polite">${CAPS.filter((one) => limits[one].trim() !== "").map((one) => html`<li>${t(`limits.means.${one}`, { share: limits[one] })}</li>`)}</ul>
      <${Fault} fault=${fault} />
      <div class="buttons"><button class="main" disabled=${busy}>${t("limits.set")}</button></div>
      <p role="status">${done ? t("limits.done") : ""}</p>
    </form>
  </section>`;
}

export function ApprovalsView({ dataset, refresh }) {
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
    <p class="quiet">${t("approvals.about")}</p>
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

export function CheckResults({ found }) {
  const facts = [["rows", found.rows], ["people", found.people], ["counting", found.counting], ["cut", found.cut], ["nobody", found.nobody]];
  return html`<div class="private">
    <p class="private-mark"><strong>${t("check.private")}</strong> ${t("check.privatetext")}</p>
    <div class="facts-row">${facts.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => html`<div><strong>${number(value)}</strong><span>${t(`check.${name}`)}</span></div>`)}</div>
    <div class="scroll" tabindex="0" role="group" aria-label=${t("check.table")}>
      <table>
        <thead><tr>${["column", "kind", "missing", "outside", "below", "above"].map((one, place) => html`<th scope="col" class=${place > 1 ? "n" : ""}>${t(`check.${one}`)}</th>`)}</tr></thead>
        <tbody>${found.columns.map((one) => html`<tr><td><span class="clip">${one.name}</span></td><td>${one.kind}</td>${["missing", "outside", "below", "above"].map((key) => html`<td class="n">${one[key] ? number(one[key]) : "–"}</td>`)}</tr>`)}</tbody>
      </table>
    </div>
    ${found.hints.length > 0 && html`<ul>${found.hints.map((one) => html`<li>${one}</li>`)}</ul>`}
  </div>`;
}

export function CheckView({ dataset }) {
  const [found, setFound] = useState(null);
  const { run, busy, fault } = useAction(async () => setFound(await post(`${datasetPath(dataset)}/checks`)));
  return html`<section class="card" aria-labelledby="check-title">
    <div class="card-head"><h2 id="check-title">${t("check.title")}</h2></div>
    <p>${t("check.about")}</p>
    <div class="buttons"><button type="button" class="main" disabled=${busy} onClick=${run}>${busy ? t("check.busy") : t("check.go")}</button></div>
    <${Fault} fault=${fault} />
    ${found && html`<${CheckResults} found=${found} />`}
  </section>`;
}
