#!/usr/bin/env node
/**
 * The launcher: npm's bin and `npm start`. In a source checkout it first installs and compiles what is missing or
 * stale, in an installed package it sees to it that there are kernels; then it runs the command line of dist/ in this
 * same process. In a checkout it loads nothing but Node's own modules before that, since nothing else may be there yet.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Commands that compute nothing; they start even where no C++ compiler is (`doctor` exists to say so). */
const COMMANDS_WITHOUT_KERNELS = new Set([
  "tokenize",
  "pull",
  "list",
  "ls",
  "rm",
  "ps",
  "completion",
  "inspect",
  "config",
  "plan",
  "doctor",
  "image",
  "boot",
  "health",
  "help",
  "--help",
  "-h",
  "--version",
  "-V",
]);

/**
 * The version range of package.json is `>=X.Y`; anything older lacks what the code uses, so say so instead of failing
 * midway.
 */
function refuseOldNode() {
  const wanted = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).engines.node;
  const [wantedMajor, wantedMinor] = wanted.replace(">=", "").split(".").map(Number);
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) return;
  process.stderr.write(
    `error: expected Node ${wanted}, got ${process.versions.node}\nhint: install a current release from https://nodejs.org and start again\n`,
  );
  process.exit(1);
}

refuseOldNode();
const withKernels = !COMMANDS_WITHOUT_KERNELS.has(process.argv[2] ?? "serve");
if (existsSync(new URL("../src", import.meta.url))) {
  const { ensureReady } = await import("../scripts/build.js");
  const { hostVariants } = await import("../scripts/setup/host-variants.js");
  const variants = hostVariants();
  if (!(await ensureReady({ root, withKernels, variants }))) process.exit(1);
  const { needsProbes } = await import("../scripts/setup/probes-needed.js");
  // Without a compiler the command says which flags do without.
  if (needsProbes(process.argv.slice(2))) await ensureReady({ root, withProbes: true, variants });
} else if (withKernels) {
  const { ensureInstalledKernels } = await import("../scripts/setup/installed-kernels.js");
  if (!(await ensureInstalledKernels(root))) process.exit(1);
}
// The reader of our output went away (`millrace tokenize … | head`): there is nobody left to write for.
process.stdout.on("error", (error) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});
const { main } = await import("../dist/src/cli/main.js");
await main(process.argv.slice(2));
