// Build the page: one script and one style sheet, with the licences of what is inside. `--check` compares with what is there.
import { build } from "esbuild";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const web = import.meta.dirname;
const out = join(web, "../src/dodona/server/page");
const LIMITS = { raw: 450_000, gzipped: 150_000 };

// The indentation of templates is for us: htm drops white space with a line break in it.
const unindent = {
  name: "unindent",
  setup: (building) =>
    building.onLoad({ filter: /web\/src\/.*\.js$/ }, ({ path }) => ({ contents: readFileSync(path, "utf8").replace(/\n\s+/g, "\n"), loader: "js" })),
};

const result = await build({
  plugins: [unindent],
  alias: Object.fromEntries(["@codemirror/language", "@lezer/common"].map((name) => [name, join(web, "src/no-grammar.js")])),
  entryPoints: { page: join(web, "src/main.js") },
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome111", "firefox113", "safari16.4"],
  legalComments: "none",
  charset: "utf8",
  metafile: true,
  write: false,
  outdir: out,
  logLevel: "warning",
});
const style = await build({ entryPoints: { page: join(web, "page.css") }, minify: true, charset: "utf8", write: false, outdir: out, logLevel: "warning" });

// Every package that ended up in the bundle, with its licence.
const names = new Set();
for (const [path, input] of Object.entries(result.metafile.outputs[Object.keys(result.metafile.outputs)[0]].inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
  if (found && input.bytesInOutput > 0) names.add(found[1]);
}
const licences = [...names].sort().map((name) => {
  const folder = join(web, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (!license || file === undefined) throw new Error(`${name} has no licence`);
  return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});

const files = {
  "page.js": `/*! Licences: page.licences.txt */\n${result.outputFiles[0].text}`,
  "page.css": style.outputFiles[0].text,
  "page.licences.txt": licences.join(`\n${"-".repeat(80)}\n\n`),
};
const served = [files["page.js"], files["page.css"]].map((text) => Buffer.from(text));
const sizes = { raw: 0, gzipped: 0 };
for (const one of served) {
  sizes.raw += one.length;
  sizes.gzipped += gzipSync(one, { level: 9 }).length;
}
for (const [name, most] of Object.entries(LIMITS)) if (sizes[name] > most) throw new Error(`the page has ${sizes[name]} bytes (${name}), more than ${most}`);

const check = process.argv.includes("--check");
for (const [name, content] of Object.entries(files)) {
  const path = join(out, name);
  if (!check) writeFileSync(path, content);
  else if (!existsSync(path) || readFileSync(path, "utf8") !== content) {
    console.error(`${name} is not what web/ builds. Run: make web`);
    process.exitCode = 1;
  }
}
console.log(`${check ? "compared" : "built"}: ${sizes.raw} bytes, ${sizes.gzipped} gzipped`);
