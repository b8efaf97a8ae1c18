"use strict";
// The token lives in the memory of this tab alone: closing or reloading the page forgets it.
let token = null;
let current = null;

const by = (id) => document.getElementById(id);
const API = "/api/v1";

async function call(method, path, body, key) {
  const headers = { Authorization: `Bearer ${token}`, Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key !== undefined) headers["Idempotency-Key"] = key;
  const reply = await fetch(API + path, {
    method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "omit",
  });
  const found = await reply.json().catch(() => ({}));
  if (!reply.ok) {
    const charged = found.charged === true ? " The charge stands." : found.charged === false ? " Nothing was charged." : "";
    throw new Error((found.detail || `The server replied ${reply.status}.`) + charged);
  }
  return found;
}

function say(text, bad = false) {
  by("status").textContent = text;
  by("status").classList.toggle("bad", bad);
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function percent(share) {
  const [top, bottom] = String(share).split("/");
  const value = (100 * Number(top)) / Number(bottom ?? 1);
  return value === 0 ? "0%" : `${Number(value.toPrecision(3))}%`;
}

function values(column) {
  if (column.labels) return column.labels.join(", ");
  if (column.lower !== undefined) return `${column.lower} to ${column.upper}${column.step ? `, in steps of ${column.step}` : ""}`;
  return column.kind === "boolean" ? "true, false" : "";
}

async function logIn(event) {
  event.preventDefault();
  token = by("token").value.trim();
  by("token").value = "";
  try {
    const me = await call("GET", "/me");
    const { datasets } = await call("GET", "/datasets");
    by("account").textContent = `Logged in as ${me.account}.`;
    by("datasets").replaceChildren(...datasets.map((one) => {
      const option = element("option", one.dataset);
      option.value = one.dataset;
      return option;
    }));
    by("login").hidden = true;
    by("work").hidden = false;
    say("");
    if (datasets.length > 0) await choose(datasets[0].dataset);
    else say("You have no role for any dataset yet. Ask an owner for one.", true);
  } catch (fault) {
    token = null;
    let note = by("login").querySelector(".bad");
    if (!note) by("login").append((note = element("p", "", "bad")));
    note.setAttribute("role", "alert");
    note.textContent = fault.message;
  }
}

function logOut() {
  token = null;
  current = null;
  for (const id of ["columns", "answer", "datasets"]) by(id).replaceChildren();
  by("work").hidden = true;
  by("login").hidden = false;
  by("token").focus();
}

async function choose(name) {
  current = await call("GET", `/datasets/${encodeURIComponent(name)}`);
  by("columns").replaceChildren(...current.columns.map((column) => {
    const row = element("tr");
    row.append(element("td", column.name), element("td", column.kind), element("td", values(column)));
    return row;
  }));
  const size = current.unit.size ? `about ${current.unit.size.toLocaleString()} rows, ` : "";
  const yours = current.budget.yours ?? current.budget.left;
  by("facts").textContent =
    `Table ${current.table}: ${size}each ${current.unit.protects} is protected. You may still spend ${percent(yours)} of the budget.`;
  const first = current.columns.find((column) => column.kind === "category") ?? current.columns[0];
  by("question").value = `SELECT ${first.name}, count(*) FROM ${current.table} GROUP BY ${first.name}`;
  by("answer").replaceChildren();
}

function body() {
  const within = by("within").value.trim();
  const asked = { question: by("question").value };
  if (within) asked.within = /^[0-9.]+$/.test(within) ? Number(within) : within;
  return asked;
}

async function working(action) {
  for (const id of ["quote", "ask"]) by(id).disabled = true;
  say("…");
  try {
    await action();
  } catch (fault) {
    say(fault.message, true);
  } finally {
    for (const id of ["quote", "ask"]) by(id).disabled = false;
  }
}

function quote() {
  return working(async () => {
    const offer = await call("POST", `/datasets/${encodeURIComponent(current.dataset)}/quotes`, body());
    const free = percent(offer.price.share) === "0%";
    const price = free ? "It is free." : `It would take ${percent(offer.price.share)} of the budget; nothing is spent yet.`;
    const expected = (offer.accuracy ?? [])
      .filter((one) => Number.isFinite(one.within))
      .map((one) => `${one.column} within ±${number(one.within)}`);
    const accuracy = expected.length > 0 ? `Expected: ${expected.join(", ")}, each with probability ${offer.confidence}.` : "";
    say([price, accuracy, `Source: ${offer.source}.`, offer.explanation ?? ""].filter(Boolean).join("\n"));
  });
}

let pending = null; // a question and its key: asked again after a failure, it is charged once

function ask(event) {
  event.preventDefault();
  return working(async () => {
    const asked = JSON.stringify([current.dataset, body()]);
    if (pending === null || pending.asked !== asked) pending = { asked, key: `page-${crypto.randomUUID()}` };
    const answer = await call("POST", `/datasets/${encodeURIComponent(current.dataset)}/answers`, body(), pending.key);
    pending = null;
    by("answer").replaceChildren(show(answer));
    const sure = `Each interval holds the exact value with probability ${answer.confidence} or more.`;
    say([`${sure} Source: ${answer.source}. Price: ${percent(answer.price.share)} of the budget.`,
      ...(answer.warnings ?? [])].join("\n"));
  });
}

const number = (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(6)).toLocaleString());

function show(answer) {
  const table = element("table");
  table.append(element("caption", answer.question));
  const head = element("tr");
  const estimates = [];
  answer.columns.forEach((column, place) => {
    head.append(Object.assign(element("th", column.name), { scope: "col" }));
    if (column.kind === "estimate") {
      estimates.push(place);
      head.append(Object.assign(element("th", "low to high"), { scope: "col" }), Object.assign(element("th"), { scope: "col" }));
    }
  });
  table.append(element("thead"));
  table.tHead.append(head);
  const scales = new Map(estimates.map((place) => [place, scale(answer.rows.map((row) => row[place]))]));
  const rows = element("tbody");
  for (const row of answer.rows) {
    const line = element("tr");
    row.forEach((cell, place) => {
      if (!scales.has(place)) {
        line.append(element("td", String(cell)));
        return;
      }
      line.append(element("td", number(cell?.value), "number"));
      line.append(element("td", cell && cell.low !== undefined ? `${number(cell.low)} to ${number(cell.high)}` : "–", "number"));
      const picture = element("td");
      if (cell && Number.isFinite(cell.value)) picture.append(bar(cell, scales.get(place)));
      line.append(picture);
    });
    rows.append(line);
  }
  table.append(rows);
  return table;
}

function scale(cells) {
  const ends = cells.flatMap((cell) => (cell ? [cell.low, cell.high, cell.value] : [])).filter(Number.isFinite);
  const low = Math.min(0, ...ends);
  const high = Math.max(0, ...ends);
  return (value) => (high === low ? 0 : (200 * (value - low)) / (high - low));
}

function bar(cell, x) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "-4 0 208 20");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `${number(cell.value)}, between ${number(cell.low)} and ${number(cell.high)}`);
  const draw = (name, className, attributes) => {
    const made = document.createElementNS(space, name);
    made.setAttribute("class", className);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    picture.append(made);
  };
  const [zero, value] = [x(0), x(cell.value)];
  draw("rect", "bar", { x: Math.min(zero, value), y: 4, width: Math.abs(value - zero), height: 12 });
  draw("line", "axis", { x1: zero, x2: zero, y1: 0, y2: 20 });
  if (Number.isFinite(cell.low) && Number.isFinite(cell.high)) {
    const [low, high] = [x(cell.low), x(cell.high)];
    draw("line", "range", { x1: low, x2: high, y1: 10, y2: 10 });
    for (const end of [low, high]) draw("line", "range", { x1: end, x2: end, y1: 5, y2: 15 });
  }
  return picture;
}

by("login-form").addEventListener("submit", logIn);
by("logout").addEventListener("click", logOut);
by("datasets").addEventListener("change", (event) => choose(event.target.value).catch((fault) => say(fault.message, true)));
by("quote").addEventListener("click", quote);
by("ask-form").addEventListener("submit", ask);
