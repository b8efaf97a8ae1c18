// The reader's own tokens.
import { useState } from "preact/hooks";
import { call, get, post } from "./api.js";
import { Dialog, Fault, Field, Loading, Notice, html, useAction, useLoad } from "./ui.js";
import { day, moment } from "./format.js";
import { t } from "./texts.js";

export function NewToken({ token, close }) {
  return html`<${Dialog} title=${t("token.new")} open=${token !== null} close=${close}>
    <p>${t("token.once")}</p>
    <pre class="sqlbox" tabindex="0"><code>${token}</code></pre>
    <div class="buttons">
      <button type="button" onClick=${() => navigator.clipboard?.writeText(token)}>${t("copy")}</button>
      <button type="button" class="main" onClick=${close}>${t("token.noted")}</button>
    </div>
  <//>`;
}

export function Tokens({ path, may, heading }) {
  const state = useLoad(() => get(path), [path]);
  const [name, setName] = useState("");
  const [days, setDays] = useState("90");
  const [cap, setCap] = useState("");
  const [made, setMade] = useState(null);
  const { run, busy, fault } = useAction(async (action) => {
    await action();
    state.reload();
  });
  const make = async () => {
    const body = { name, days: Number(days), ...(cap.trim() ? { max_price: cap.trim() } : {}) };
    setMade((await post(path, body)).token);
    setName("");
  };
  const list = (state.found?.tokens ?? []).filter((one) => one.ended === null);
  return html`<section class="card" aria-label=${heading}>
    <div class="card-head"><h2>${heading}</h2></div>
    <${Fault} plain fault=${state.fault ?? fault} />
    ${!state.found && !state.fault && html`<${Loading} />`}
    ${list.length > 0 &&
    html`<div class="scroll" tabindex="0" role="group" aria-label=${heading}>
      <table>
        <thead><tr>${["name", "created", "expires", "used", "cap"].map((one) => html`<th scope="col">${t(`token.${one}`)}</th>`)}<td></td></tr></thead>
        <tbody>
          ${list.map(
            (one) =>
              html`<tr>
                <td>${one.name}</td>
                <td>${day(one.created)}</td>
                <td>${one.expires ? day(one.expires) : "–"}</td>
                <td>${one.last_use ? moment(one.last_use) : "–"}</td>
                <td>${one.max_price ?? "–"}</td>
                <td><button type="button" class="small" disabled=${busy} onClick=${() => run(() => call("DELETE", `${path}/${one.id}`))}>${t("token.revoke")}</button></td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>`}
    ${may
      ? html`<form class="row" onSubmit=${(event) => (event.preventDefault(), run(make))}>
          <${Field} label=${t("token.name")}><input required maxlength="100" value=${name} onInput=${(event) => setName(event.target.value)} /><//>
          <${Field} label=${t("token.days")}><input type="number" min="1" max="3650" required value=${days} onInput=${(event) => setDays(event.target.value)} /><//>
          <${Field} label=${t("token.capfield")}><input placeholder="1%" value=${cap} onInput=${(event) => setCap(event.target.value)} /><//>
          <button disabled=${busy}>${t("token.make")}</button>
        </form>`
      : html`<${Notice}>${t("token.loginfirst")}<//>`}
    <${NewToken} token=${made} close=${() => setMade(null)} />
  </section>`;
}
