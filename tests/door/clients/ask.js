// node's pg and postgres: each line of the output is a step that passed.
const options = {
  host: "localhost", port: Number(process.env.PGPORT), user: process.env.PGUSER, password: process.env.PGPASSWORD,
  database: process.env.PGDATABASE, ssl: { rejectUnauthorized: false },
};
const groups = "SELECT ward, count(*)::int AS n FROM stays GROUP BY ward ORDER BY ward";
const passed = (step, holds) => { if (!holds) throw new Error(step); console.log(step); };

async function withPg() {
  const { Client, Pool } = require("pg");
  const client = new Client(options);
  const heard = [];
  client.on("notice", (notice) => heard.push(notice.message));
  await client.connect();
  const found = await client.query(groups);
  passed("pg: a question", found.rows.map((row) => row.ward).join() === "children,medicine,surgery");
  passed("pg: a notice", heard.some((text) => text.includes("Price:")));
  const bound = await client.query({ name: "older", text: "SELECT count(*) AS n FROM stays WHERE age >= $1", values: [40] });
  passed("pg: a prepared statement with a parameter", Number(bound.rows[0].n) > 0);
  await client.query("SELECT * FROM stays").then(() => passed("pg: rows", false), (e) => passed("pg: rows are refused", e.code === "42501"));
  await client.end();
  const pool = new Pool({ ...options, max: 4 });
  const all = await Promise.all(Array.from({ length: 8 }, () => pool.query(groups)));
  passed("pg: a pool", new Set(all.map((one) => JSON.stringify(one.rows))).size === 1);
  await pool.end();
}

async function withPostgres() {
  const sql = require("postgres")({ ...options, username: options.user, ssl: { rejectUnauthorized: false }, onnotice: () => {} });
  const rows = await sql`SELECT sex, count(*)::int AS n FROM stays WHERE age >= ${18} GROUP BY sex ORDER BY n DESC`;
  passed("postgres: a tagged question", rows[0].sex === "female");
  let count = 0;
  await sql.unsafe(groups).cursor(1, (batch) => { count += batch.length; });
  passed("postgres: a cursor", count === 3);
  await sql.end();
}

withPg().then(withPostgres).catch((fault) => { console.error(fault); process.exit(1); });
