// Logging in: with a token, with a name and a password, or at the provider of the server.
import { useState } from "preact/hooks";
import { call, get, setToken } from "./api.js";
import { Fault, Field, Tabs, html, useAction } from "./ui.js";
import { t } from "./texts.js";

export function LoginForm({ facts, done }) {
  const [way, setWay] = useState("token");
  const [token, setText] = useState("");
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const { run, busy, fault, clear } = useAction(async () => {
    if (way === "token") {
      setToken(token.trim());
      try {
        done(await get("/me", { login: true }));
      } catch (problem) {
        setToken(null);
        throw problem;
      }
      return;
    }
    setToken(null);
    await call("POST", "/session", { body: { name: name.trim(), password }, login: true });
    done(await get("/me", { login: true }));
  });
  return html`<form class="stack" onSubmit=${(event) => (event.preventDefault(), run())}>
    <${Tabs} label=${t("login.way")} chosen=${way} choose=${(one) => (clear(), setWay(one))} tabs=${[["token", t("login.token")], ["password", t("login.password")]]} />
    ${way === "token"
      ? html`<${Field} label=${t("login.yourtoken")} hint=${t("login.tokenhint")}>
          <input class="mono" type="password" required autocomplete="off" spellcheck="false" placeholder="dodona_…" value=${token} onInput=${(event) => setText(event.target.value)} />
        <//>`
      : html`<${Field} label=${t("login.name")}><input required autocomplete="username" value=${name} onInput=${(event) => setName(event.target.value)} /><//>
          <${Field} label=${t("login.secret")}><input type="password" required autocomplete="current-password" value=${password} onInput=${(event) => setPassword(event.target.value)} /><//>`}
    <${Fault} plain fault=${fault} />
    <div class="buttons">
      <button class="main" disabled=${busy}>${t("login.go")}</button>
      ${facts?.login && html`<a class="button" href="/api/v1/login">${t("login.provider")}</a>`}
    </div>
  </form>`;
}
