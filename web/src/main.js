// The page: who is logged in, which dataset, which view. The address after # names the view, so that Back works.
import { render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { call, datasetPath, get, onExpired, setToken } from "./api.js";
import { Tokens } from "./account.js";
import { AccountsView } from "./accounts.js";
import { AuditView } from "./audit.js";
import { BudgetView, TheoremDialog, Tour } from "./learn.js";
import { LoginForm } from "./login.js";
import { ApprovalsView, ChargesView, CheckView, LimitsView, OwnerOverview } from "./owner.js";
import { DashboardsView, HistoryView, RequestsView, SaveDialog, rememberAsked } from "./saved.js";
import { Dialog, Fault, Loading, Meter, Notice, html, useLoad } from "./ui.js";
import { Wizard } from "./wizard.js";
import { Workbench } from "./workbench.js";
import { clip, percent } from "./format.js";
import { t } from "./texts.js";
import tour from "../tour.json";

const VIEWS = {
  analyst: ["ask", "history", "dashboards", "requests", "budget"],
  auditor: ["audit", "charges", "budget"],
  owner: ["overview", "charges", "approvals", "limits", "check", "ask", "history", "dashboards", "audit", "budget"],
};
const OWNERS_ONLY = new Set(["limits", "check"]);

function readPlace() {
  const [, first = "", second = ""] = location.hash.split("/");
  return { dataset: decodeURIComponent(first), view: second };
}

const go = (dataset, view) => {
  location.hash = `#/${encodeURIComponent(dataset)}/${view}`;
};

function usePlace() {
  const [place, setPlace] = useState(readPlace);
  useEffect(() => {
    const listen = () => setPlace(readPlace());
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, []);
  return place;
}

const Mark = () =>
  html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><path d="M16 3c7 3 10 8 10 13 0 6-4 10-9 11l-1 3-1-3c-5-1-9-5-9-11C6 11 9 6 16 3z" /><path class="vein" d="M16 9v17M16 15l5-3M16 15l-5-3M16 20l5-3M16 20l-5-3" /></svg>`;

// --- One dataset. ---

function DatasetView({ dataset, view, me, facts, theorem }) {
  const described = useLoad(() => get(datasetPath(dataset)), [dataset]);
  const spent = useLoad(() => get(`${datasetPath(dataset)}/budget`), [dataset]);
  const [start, setStart] = useState(undefined);
  const [card, setCard] = useState(null);
  const [step, setStep] = useState(null);
  const [answered, setAnswered] = useState(false);
  const refresh = useCallback(() => {
    spent.reload();
    described.reload();
  }, [dataset]);
  const [visited, setVisited] = useState(false);
  useEffect(() => setStart(undefined), [dataset]);
  const schema = described.found;
  const budget = spent.found;
  const fault = described.fault ?? spent.fault;
  if (!schema || !budget || schema.dataset !== dataset) {
    if (!fault) return html`<main id="main" class="page"><${Loading} /></main>`;
    return html`<main id="main" class="page"><${Fault} fault=${fault} retry=${refresh} /></main>`;
  }
  const { role } = schema;
  const views = VIEWS[role].filter((one) => facts.door === "owners" || !OWNERS_ONLY.has(one));
  const chosen = views.includes(view) ? view : views[0];
  if (chosen === "ask" && !visited) setVisited(true); // from then on it stays, with what was typed
  const open = (asked) => {
    setStart({ ...asked });
    go(dataset, "ask");
  };
  const truthOf = (question) => {
    const found = facts.demo && tour.dataset === dataset && tour.steps.find((one) => one.question === question);
    return found ? found.truth : undefined;
  };
  return html`<nav class="subnav" aria-label=${t("nav.dataset")}>
      <ul>
        ${views.map((one) => html`<li><a href=${`#/${encodeURIComponent(dataset)}/${one}`} aria-current=${one === chosen ? "page" : undefined}>${t(`nav.${one}`)}</a></li>`)}
      </ul>
      <a class="budgetline" href=${`#/${encodeURIComponent(dataset)}/budget`}>
        <${Meter} left=${budget.yours ?? budget.left} />
        <span>${t((budget.yours ?? budget.left) === budget.left ? "budget.line" : "budget.yourline", { left: percent(budget.yours ?? budget.left) })}</span>
      </a>
    </nav>
    <main id="main" class="page" tabindex="-1">
      ${fault && html`<${Fault} fault=${fault} retry=${refresh} />`}
      ${budget.closed && chosen !== "overview" && html`<${Notice} kind="warn">${t("owner.closed")}<//>`}
      ${facts.demo && tour.dataset === dataset && role === "analyst" && chosen === "ask" &&
      (step === null
        ? html`<div class="tour-offer"><p>${t("tour.offer")}</p><button type="button" class="small" onClick=${() => setStep(0)}>${t("tour.start")}</button></div>`
        : html`<${Tour} tour=${tour} step=${step} go=${(at) => (setAnswered(false), setStep(at))} close=${() => setStep(null)} load=${setStart} answered=${answered} />`)}
      <div hidden=${chosen !== "ask"}>
        ${visited &&
        html`<${Workbench} key=${dataset} dataset=${dataset} schema=${schema} budget=${budget} refresh=${refresh} theorem=${theorem} start=${start} toDashboard=${setCard} truthOf=${truthOf}
          onAnswer=${(asked, found, key) => {
            setAnswered(true);
            if (found === null || found.receipt !== null) rememberAsked(dataset, key, asked);
          }} />`}
      </div>
      ${chosen === "history" && html`<${HistoryView} dataset=${dataset} account=${me.account} again=${open} theorem=${theorem} />`}
      ${chosen === "dashboards" && html`<${DashboardsView} dataset=${dataset} open=${open} theorem=${theorem} />`}
      ${chosen === "requests" && html`<${RequestsView} dataset=${dataset} ask=${open} theorem=${theorem} />`}
      ${chosen === "budget" && html`<${BudgetView} schema=${schema} budget=${budget} theorem=${theorem} />`}
      ${chosen === "audit" && html`<${AuditView} dataset=${dataset} theorem=${theorem} />`}
      ${chosen === "overview" && html`<${OwnerOverview} dataset=${dataset} schema=${schema} budget=${budget} refresh=${refresh} door=${facts.door} theorem=${theorem} />`}
      ${chosen === "charges" && html`<${ChargesView} dataset=${dataset} theorem=${theorem} />`}
      ${chosen === "approvals" && html`<${ApprovalsView} dataset=${dataset} refresh=${refresh} theorem=${theorem} />`}
      ${chosen === "limits" && html`<${LimitsView} key=${dataset} dataset=${dataset} schema=${schema} refresh=${refresh} theorem=${theorem} />`}
      ${chosen === "check" && html`<${CheckView} key=${dataset} dataset=${dataset} theorem=${theorem} />`}
      <${SaveDialog} dataset=${dataset} card=${card} close=${() => setCard(null)} />
    </main>`;
}

// --- The whole. ---

function Inside({ me, facts, logOut }) {
  const place = usePlace();
  const listed = useLoad(() => get("/datasets"), []);
  const [theorem, setTheorem] = useState(null);
  const datasets = listed.found?.datasets ?? [];
  const served = datasets.filter((one) => one.served);
  const manages = me.datasets === null && me.grants["*"] === "owner" && facts.door === "owners";
  const own = ["-accounts", "-new", "-tokens"].includes(place.dataset) ? place.dataset : null;
  const current = own === null ? (served.find((one) => one.dataset === place.dataset) ?? served[0]) : null;
  useEffect(() => {
    document.title = current ? `${clip(current.dataset)} · Dodona` : "Dodona";
  }, [current?.dataset]);
  return html`<header class="top">
      <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>${t("skip")}</a>
      <div class="brand"><${Mark} /><h1>Dodona</h1></div>
      ${served.length > 0 &&
      html`<label class="pick"><span class="hidden">${t("nav.choose")}</span>
        <select value=${current?.dataset ?? ""} onChange=${(event) => event.target.value && go(event.target.value, place.view)}>
          ${own && html`<option value="">${t("nav.choose")}</option>`}
          ${served.map((one) => html`<option value=${one.dataset}>${clip(one.dataset)}</option>`)}
        </select>
      </label>`}
      <span class="door">${facts.door === "owners" ? t("nav.ownersdoor") : ""}</span>
      <nav class="who" aria-label=${t("nav.account")}>
        ${manages && html`<a href="#/-new" aria-current=${own === "-new" ? "page" : undefined}>${t("nav.new")}</a><a href="#/-accounts" aria-current=${own === "-accounts" ? "page" : undefined}>${t("nav.accounts")}</a>`}
        <a href="#/-tokens" aria-current=${own === "-tokens" ? "page" : undefined}>${t("nav.tokens")}</a>
        <span class="account">${me.account}</span>
        <button type="button" class="small" onClick=${logOut}>${t("nav.logout")}</button>
      </nav>
    </header>
    ${listed.fault && html`<main id="main" class="page"><${Fault} fault=${listed.fault} retry=${listed.reload} /></main>`}
    ${current && html`<${DatasetView} key=${current.dataset} dataset=${current.dataset} view=${place.view} me=${me} facts=${facts} theorem=${setTheorem} />`}
    ${listed.found && !current && own === null && html`<main id="main" class="page"><${Notice}>${t(manages ? "nav.emptyowner" : "nav.empty")}<//></main>`}
    ${own !== null &&
    html`<main id="main" class="page" tabindex="-1">
      ${own === "-accounts" && html`<${AccountsView} datasets=${datasets} me=${me} />`}
      ${own === "-new" && html`<${Wizard} reload=${listed.reload} open=${(name) => go(name, "overview")} theorem=${setTheorem} />`}
      ${own === "-tokens" && html`<${Tokens} path="/me/tokens" may=${me.token === null || manages} heading=${t("nav.tokens")} />`}
    </main>`}
    <${TheoremDialog} id=${theorem} open=${setTheorem} close=${() => setTheorem(null)} />
    <footer><p>${t("footer")}</p></footer>`;
}

function App() {
  const [facts, setFacts] = useState({ door: "analysts", demo: false, login: false });
  const [me, setMe] = useState(undefined);
  const [expired, setExpired] = useState(false);
  useEffect(() => {
    onExpired(() => setExpired(true));
    // A session of the browser may be open already; a token never is.
    const look = async () => {
      const found = await (await fetch("/page.json")).json();
      setFacts(found);
      setMe(found.session ? await get("/me", { login: true }) : null);
    };
    look().catch(() => setMe(null));
  }, []);
  useEffect(() => {
    if (me !== undefined) performance.mark("dodona-ready");
  }, [me]);
  const logOut = async () => {
    await call("DELETE", "/session", { login: true }).catch(() => undefined);
    setToken(null);
    location.hash = "";
    setMe(null);
  };
  if (me === undefined) return html`<main class="welcome"><${Loading} /></main>`;
  if (me === null) {
    return html`<main class="welcome">
      <div class="welcome-text">
        <div class="brand"><${Mark} /><h1>Dodona</h1></div>
        <p class="lead">${t("welcome.lead")}</p>
        <ul>
          <li>${t("welcome.one")}</li>
          <li>${t("welcome.two")}</li>
          <li>${t("welcome.three")}</li>
        </ul>
      </div>
      <section class="card" aria-labelledby="login-title">
        <h2 id="login-title">${t(facts.door === "owners" ? "login.owners" : "login.title")}</h2>
        ${facts.demo && html`<${Notice}>${t("login.demo")}<//>`}
        <${LoginForm} facts=${facts} done=${(who) => (setExpired(false), setMe(who))} />
      </section>
    </main>`;
  }
  return html`<${Inside} key=${me.account} me=${me} facts=${facts} logOut=${logOut} />
    <${Dialog} title=${t("login.expired")} open=${expired} close=${() => setExpired(false)}>
      <p>${t("login.expiredtext")}</p>
      <${LoginForm} facts=${facts} done=${(who) => (setExpired(false), setMe(who))} />
    <//>`;
}

render(html`<${App} />`, document.getElementById("app"));
