// Accounts of the server, for owners of all datasets.
import { useState } from "preact/hooks";
import { call, get, post } from "./api.js";
import { Tokens } from "./account.js";
import { Act } from "./owner.js";
import { Dialog, Fault, Field, Loading, html, useAction, useLoad } from "./ui.js";
import { clip, day } from "./format.js";
import { t } from "./texts.js";

const ROLES = ["analyst", "auditor", "owner"];

export function AccountsView({ datasets, me }) {
  const state = useLoad(() => get("/accounts"), []);
  const [name, setName] = useState("");
  const [dataset, setDataset] = useState(datasets[0]?.dataset ?? "*");
  const [role, setRole] = useState("analyst");
  const [password, setPassword] = useState("");
  const [chosen, setChosen] = useState(null);
  const [stopping, setStopping] = useState(null);
  const { run, busy, fault } = useAction(async (action) => {
    await action();
    state.reload();
  });
  const add = async () => {
    await post("/accounts", { name: name.trim(), grants: { [dataset]: role }, ...(password ? { password } : {}) });
    setName("");
    setPassword("");
  };
  const list = state.found?.accounts ?? [];
  return html`<div class="stackwide">
    <section class="card" aria-labelledby="accounts-title">
      <div class="card-head"><h2 id="accounts-title">${t("accounts.title")}</h2></div>
      <p class="quiet">${t("accounts.about")}</p>
      <${Fault} plain fault=${state.fault ?? fault} retry=${state.fault && state.reload} />
      ${!state.found && !state.fault && html`<${Loading} />`}
      <div class="scroll" tabindex="0" role="group" aria-label=${t("accounts.title")}>
        <table>
          <thead><tr><th scope="col">${t("accounts.name")}</th><th scope="col">${t("accounts.roles")}</th><th scope="col">${t("accounts.created")}</th><td></td></tr></thead>
          <tbody>
            ${list.map(
              (one) =>
                html`<tr>
                  <td><span class="clip">${one.name}</span> ${one.stopped && html`<span class="tag warn">${t("owner.stopped")}</span>`}</td>
                  <td>${Object.entries(one.grants).map(([where, what]) => html`<span class="tag">${t(`role.${what}`)}: ${where === "*" ? t("accounts.all") : clip(where)}</span> `)}</td>
                  <td class="nowrap">${day(one.created)}</td>
                  <td>
                    ${!one.stopped &&
                    html`<div class="buttons"><button type="button" class="small" onClick=${() => setChosen(one.name)}>${t("accounts.tokens")}</button>
                      <button type="button" class="small" onClick=${() => setStopping(one.name)}>${t("stop.button")}</button></div>`}
                  </td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
      <h3>${t("accounts.add")}</h3>
      <form class="row" onSubmit=${(event) => (event.preventDefault(), run(add))}>
        <${Field} label=${t("accounts.name")}><input required maxlength="100" autocomplete="off" value=${name} onInput=${(event) => setName(event.target.value)} /><//>
        <${Field} label=${t("accounts.role")}><select value=${role} onChange=${(event) => setRole(event.target.value)}>${ROLES.map((one) => html`<option value=${one}>${t(`role.${one}`)}</option>`)}</select><//>
        <${Field} label=${t("accounts.dataset")}><select value=${dataset} onChange=${(event) => setDataset(event.target.value)}><option value="*">${t("accounts.all")}</option>${datasets.map((one) => html`<option value=${one.dataset}>${clip(one.dataset)}</option>`)}</select><//>
        <${Field} label=${t("login.secret")} hint=${t("accounts.password")}><input type="password" minlength="12" autocomplete="new-password" value=${password} onInput=${(event) => setPassword(event.target.value)} /><//>
        <button disabled=${busy}>${t("accounts.add")}</button>
      </form>
    </section>
    <${Act} open=${stopping !== null} danger title=${t("stop.title", { name: clip(stopping ?? "") })} preview=${t(stopping === me.account ? "accounts.stopself" : "accounts.stop", { name: clip(stopping ?? "") })}
      act=${() => call("DELETE", `/accounts/${encodeURIComponent(stopping)}`)}
      close=${(done) => {
        setStopping(null);
        if (done) state.reload();
      }} />
    <${Dialog} title=${t("accounts.tokensof", { name: clip(chosen ?? "") })} open=${chosen !== null} close=${() => setChosen(null)} wide>
      <${Tokens} path=${`/accounts/${encodeURIComponent(chosen)}/tokens`} may heading=${t("accounts.tokens")} />
    <//>
  </div>`;
}
