// Bundles the dashboard: `node build.mjs`, with --watch again at every change, with --tests the tests of pure modules.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

const OUT = "../src/oncue/dashboard/assets";
const watching = process.argv.includes("--watch");

const common = {
  bundle: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
};

function compressed(bytes) {
  const most = { [constants.BROTLI_PARAM_QUALITY]: watching ? 4 : 11 };
  return { ".br": brotliCompressSync(bytes, { params: most }), ".gz": gzipSync(bytes, { level: 9 }) };
}

/** Writes everything beside the old assets, then index.html, then removes what is old: a running server always has whole ones. */
function write(result) {
  mkdirSync(OUT, { recursive: true });
  const old = new Set(readdirSync(OUT));
  const names = {};
  for (const file of result.outputFiles) {
    names[entryOf(result, file.path)] = keep(basename(file.path), file.contents, old);
  }
  const icon = readFileSync("src/icon.svg");
  names.icon = keep(`icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8)}.svg`, icon, old);
  writeIndex(names, result);
  old.delete("index.html");
  for (const name of old) rmSync(join(OUT, name));
}

function keep(name, bytes, old) {
  const whole = Buffer.from(bytes);
  for (const [end, content] of Object.entries({ "": whole, ...compressed(whole) })) {
    writeFileSync(join(OUT, name + end), content);
    old.delete(name + end);
  }
  return name;
}

function entryOf(result, path) {
  const found = Object.entries(result.metafile.outputs).find(([name]) => basename(name) === basename(path));
  return found?.[1].entryPoint ?? basename(path);
}

/** index.html, with the names of the first files, and hints to load at once what the first file imports. */
function writeIndex(names, result) {
  const [, main] = Object.entries(result.metafile.outputs).find(([, one]) => one.entryPoint === "src/main.tsx");
  const imported = main.imports.filter((one) => one.kind === "import-statement").map((one) => basename(one.path));
  const preloads = imported.map((name) => `<link rel="modulepreload" href="assets/${name}">`).join("\n");
  const html = readFileSync("src/index.html", "utf8")
    .replace("{{icon}}", names.icon)
    .replace("{{style}}", names["src/style/style.css"])
    .replace("{{main}}", names["src/main.tsx"])
    .replace("{{preloads}}", preloads);
  writeFileSync(join(OUT, "index.new"), html);
  renameSync(join(OUT, "index.new"), join(OUT, "index.html"));
}

const app = {
  ...common,
  entryPoints: ["src/main.tsx", "src/style/style.css"],
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  outdir: OUT,
  splitting: true,
  minify: !watching,
  metafile: true,
  write: false,
  plugins: [{ name: "write", setup: (build) => build.onEnd((result) => result.errors.length || write(result)) }],
};

if (process.argv.includes("--tests")) {
  const tests = readdirSync("src", { recursive: true }).filter((name) => name.endsWith(".test.ts"));
  rmSync("build/tests", { recursive: true, force: true });
  await esbuild.build({
    ...common,
    entryPoints: tests.map((name) => join("src", name)),
    outdir: "build/tests",
    platform: "node",
    outExtension: { ".js": ".mjs" },
  });
} else if (watching) {
  await (await esbuild.context(app)).watch();
  console.log("Watching dashboard/src. Reload the page after a change.");
} else {
  await esbuild.build(app);
}
