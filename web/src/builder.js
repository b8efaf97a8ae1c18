// A question for people who write no SQL: what to measure, by which groups, of which rows. It shows the SQL that it makes.
import { Field, html } from "./ui.js";
import { literal, quoted } from "./editor.js";
import { label } from "./format.js";
import { t } from "./texts.js";

const MOST_GROUPS = 400;
export const STEPS = ["0.1%", "0.2%", "0.5%", "1%", "2%", "5%", "10%"];
export const EMPTY = { measure: "count", of: "", groups: [], filters: [] };

const numeric = (column) => column.kind === "integer" || column.kind === "number";

const timed = (column) => column.kind === "date" || column.kind === "timestamp";

// Columns that make a number of groups that a person can look at.
export function groupable(column) {
  if (column.kind === "category") return column.labels.length <= MOST_GROUPS;
  if (column.kind === "boolean" || column.kind === "date" || column.bins) return true;
  return column.kind === "integer" && column.upper - column.lower < MOST_GROUPS;
}

function condition(column, filter) {
  const name = quoted(column.name);
  if (column.kind === "boolean") return !filter.value ? null : `${name} = ${filter.value}`;
  if (column.kind === "category") {
    const chosen = filter.labels ?? [];
    if (chosen.length === 0) return null;
    return chosen.length === 1 ? `${name} = ${literal(chosen[0])}` : `${name} IN (${chosen.map(literal).join(", ")})`;
  }
  const text = (value) => (timed(column) ? literal(value.replace("T", " ")) : String(value));
  const parts = [];
  if (filter.from) parts.push(`${name} >= ${text(filter.from)}`);
  if (filter.to) parts.push(`${name} <= ${text(filter.to)}`);
  return parts.length > 0 ? parts.join(" AND ") : null;
}

// Private tables beside the first, each with how it is joined; one that is not joined has columns that lists cannot ask about.
const linked = (schema) =>
  (schema.tables ?? []).filter((own) => own.how.startsWith("private")).map((own) => ({ columns: new Set(own.columns), join: /JOIN .+? USING \([^)]+\)/.exec(own.how)?.[0] }));

function askable(schema) {
  const apart = linked(schema).filter((own) => own.join === undefined);
  return schema.columns.filter((column) => !apart.some((own) => own.columns.has(column.name)));
}

export function toSql({ measure, of, groups, filters }, schema) {
  const byName = new Map(schema.columns.map((column) => [column.name, column]));
  const measured = {
    count: "count(*)",
    people: `count(DISTINCT ${quoted(schema.unit.id ?? "")})`,
    avg: `avg(${quoted(of)})`,
    sum: `sum(${quoted(of)})`,
    median: `median(${quoted(of)})`,
  }[measure];
  const keys = groups.map(quoted);
  const where = filters.map((one) => byName.has(one.column) && condition(byName.get(one.column), one)).filter(Boolean);
  const used = [of, ...groups, ...filters.map((one) => one.column)];
  return [
    `SELECT ${[...keys, measured].join(", ")}`,
    `FROM ${quoted(schema.table)}`,
    ...linked(schema).map((own) => used.some((name) => own.columns.has(name)) && own.join),
    where.length > 0 && `WHERE ${where.join(" AND ")}`,
    keys.length > 0 && `GROUP BY ${keys.join(", ")}`,
  ].filter(Boolean).join("\n");
}

function Filter({ column, filter, change, remove }) {
  const set = (values) => change({ ...filter, ...values });
  const type = { date: "date", timestamp: "datetime-local" }[column.kind] ?? "number";
  const bounds = timed(column) || numeric(column) ? { min: column.lower, max: column.upper, step: column.step ?? undefined } : {};
  return html`<fieldset class="filter">
    <legend>${column.name}</legend>
    ${column.kind === "category" &&
    html`<div class="checks">
      ${column.labels.slice(0, 40).map(
        (one) =>
          html`<label class="check"
            ><input
              type="checkbox"
              checked=${(filter.labels ?? []).includes(one)}
              onChange=${(event) => set({ labels: event.target.checked ? [...(filter.labels ?? []), one] : filter.labels.filter((other) => other !== one) })}
            /><span class="clip">${one}</span></label
          >`,
      )}
    </div>`}
    ${column.kind === "boolean" &&
    html`<${Field} label=${t("builder.value")}>
      <select value=${filter.value ?? ""} onChange=${(event) => set({ value: event.target.value })}>
        <option value="">${t("builder.any")}</option>
        <option value="true">${label(true)}</option>
        <option value="false">${label(false)}</option>
      </select>
    <//>`}
    ${(numeric(column) || timed(column)) &&
    html`<div class="row">
      <${Field} label=${t("builder.from")}><input type=${type} ...${bounds} value=${filter.from ?? ""} onInput=${(event) => set({ from: event.target.value })} /><//>
      <${Field} label=${t("builder.to")}><input type=${type} ...${bounds} value=${filter.to ?? ""} onInput=${(event) => set({ to: event.target.value })} /><//>
    </div>`}
    <button type="button" class="small" onClick=${remove}>${t("builder.remove")}</button>
  </fieldset>`;
}

export function Builder({ schema, question, change }) {
  const columns = askable(schema);
  const numbers = columns.filter(numeric);
  const keys = columns.filter(groupable);
  const set = (values) => change({ ...question, ...values });
  const needsColumn = ["avg", "sum", "median"].includes(question.measure);
  const group = (place, name) => {
    const groups = [...question.groups];
    if (name === "") groups.splice(place, 1);
    else groups[place] = name;
    set({ groups });
  };
  const filterable = columns.filter((column) => !question.filters.some((one) => one.column === column.name));
  return html`<div class="builder">
    <div class="row">
      <${Field} label=${t("builder.measure")}>
        <select value=${question.measure} onChange=${(event) => set({ measure: event.target.value, of: question.of || numbers[0]?.name || "" })}>
          <option value="count">${t("builder.count")}</option>
          ${schema.unit.id && html`<option value="people">${t("builder.people")}</option>`}
          ${numbers.length > 0 && ["avg", "sum", "median"].map((one) => html`<option value=${one}>${t(`builder.${one}`)}</option>`)}
        </select>
      <//>
      ${needsColumn &&
      html`<${Field} label=${t("builder.of")}>
        <select value=${question.of} onChange=${(event) => set({ of: event.target.value })}>
          ${numbers.map((column) => html`<option value=${column.name}>${column.name}</option>`)}
        </select>
      <//>`}
      ${[0, 1].map(
        (place) =>
          place <= question.groups.length &&
          html`<${Field} label=${t(place === 0 ? "builder.by" : "builder.andby")}>
            <select value=${question.groups[place] ?? ""} onChange=${(event) => group(place, event.target.value)}>
              <option value="">${t("builder.nogroup")}</option>
              ${keys
                .filter((column) => question.groups[1 - place] !== column.name)
                .map((column) => html`<option value=${column.name}>${column.name}</option>`)}
            </select>
          <//>`,
      )}
      <${Field} label=${t("builder.filter")}>
        <select value="" onChange=${(event) => event.target.value && set({ filters: [...question.filters, { column: event.target.value }] })}>
          <option value="">${t("builder.addfilter")}</option>
          ${filterable.map((column) => html`<option value=${column.name}>${column.name}</option>`)}
        </select>
      <//>
    </div>
    ${question.filters.map((filter, place) => {
      const column = schema.columns.find((one) => one.name === filter.column);
      const replace = (values) => set({ filters: question.filters.toSpliced(place, 1, ...values) });
      return html`<${Filter} key=${filter.column} column=${column} filter=${filter} change=${(one) => replace([one])} remove=${() => replace([])} />`;
    })}
    <pre class="sqlbox" aria-label=${t("builder.sql")}><code>${toSql(question, schema)}</code></pre>
  </div>`;
}
