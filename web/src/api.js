// Calls of the HTTP API. A token lives in the memory of this tab alone: reloading the page forgets it.
import { t } from "./texts.js";

const API = "/api/v1";
const WAITS = [1000, 2000, 4000, 8000, 15000]; // milliseconds before a call is repeated

let token = null;
let expired = () => {};

export const setToken = (text) => {
  token = text;
};
export const onExpired = (listener) => {
  expired = listener;
};
export const datasetPath = (name) => `/datasets/${encodeURIComponent(name)}`;
export const newKey = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${Array.from(bytes, (one) => one.toString(16).padStart(2, "0")).join("")}`;
};

export class Problem extends Error {
  constructor(document, status) {
    super(document.detail || t("problem.status", { status }));
    Object.assign(this, document, { status, detail: this.message });
  }
}

// Whole numbers beyond 2^53 become BigInt, so that every digit is shown.
export function parse(text) {
  return JSON.parse(text, (_key, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
      ? BigInt(context.source)
      : value,
  );
}

async function send(method, path, { body, key, accept = "application/json", signal } = {}) {
  const headers = { Accept: accept };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key !== undefined) headers["Idempotency-Key"] = key;
  try {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    return await fetch(API + path, { method, headers, signal, body: sent, credentials: token === null ? "same-origin" : "omit" });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new Problem({ away: true, detail: t("problem.unreachable"), charged: null }, 0);
  }
}

export async function call(method, path, options = {}) {
  const reply = await send(method, path, options);
  if (!reply.ok) {
    let document = {};
    try {
      document = parse(await reply.text());
    } catch {
      // a proxy in front may reply with something else than JSON
    }
    const problem = new Problem(document, reply.status);
    if (reply.status === 401 && !options.login) expired();
    throw problem;
  }
  if (options.raw) return reply;
  const text = await reply.text();
  return text ? parse(text) : null;
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { body, ...options });

const passing = (fault) => fault.away || fault.charged === null || fault.status === 503 || fault.status === 429;

// A call that spends is repeated under its key while the server is away: it is charged once.
export async function insist(path, body, key, { waiting = () => {}, waits = WAITS } = {}) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await post(path, body, { key });
    } catch (fault) {
      if (!(fault instanceof Problem) || !passing(fault) || attempt >= waits.length) throw fault;
      waiting(fault, attempt + 1);
      await new Promise((resolve) => setTimeout(resolve, waits[attempt]));
    }
  }
}

export async function download(path, { name, ...options }) {
  const reply = await call(options.body === undefined ? "GET" : "POST", path, { ...options, raw: true });
  save(await reply.blob(), name);
}

export function save(content, name, type = "application/octet-stream") {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
