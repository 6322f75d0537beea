/** Checks whether the npm packages of package-lock.json are installed, and otherwise runs `npm ci` with progress. */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { startStage } from "./stage-log.js";

const PROGRESS_MS = 400;

/** Packages that every machine needs, by path; platform-specific and peer packages may be absent. */
function requiredPackages(root) {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  return Object.entries(lock.packages).filter(
    ([path, entry]) => path !== "" && !entry.optional && !entry.devOptional && !entry.peer && !entry.link,
  );
}

/** Compares contents instead of dates: dates of a fresh checkout or a copied folder mean nothing. */
export function areDependenciesCurrent(root) {
  const hiddenLockPath = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(hiddenLockPath)) return false;
  const installed = JSON.parse(readFileSync(hiddenLockPath, "utf8")).packages;
  return requiredPackages(root).every(
    ([path, entry]) => installed[path]?.version === entry.version && existsSync(join(root, path, "package.json")),
  );
}

/** `npm start` passes the path of its npm; otherwise the one on PATH. */
function npmCommand() {
  const npmPath = process.env.npm_execpath;
  if (npmPath?.endsWith(".js") && existsSync(npmPath)) return [process.execPath, [npmPath]];
  return ["npm", []];
}

/** @returns whether `npm ci` succeeded; its output is shown only if it failed. */
export async function installDependencies(root) {
  const packages = requiredPackages(root);
  const stage = startStage("dependencies");
  const [command, prefix] = npmCommand();
  // NODE_ENV=production or omit=dev would omit the compiler.
  const child = spawn(command, [...prefix, "ci", "--include=dev", "--no-audit", "--no-fund"], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  }
  const ticker = setInterval(() => {
    const numInstalled = packages.filter(([path]) => existsSync(join(root, path, "package.json"))).length;
    stage.update(`${numInstalled} of ${packages.length} packages`);
  }, PROGRESS_MS);
  const failure = await new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code) => resolve(code === 0 ? undefined : `npm ci ended with exit code ${code}`));
  });
  clearInterval(ticker);
  if (failure === undefined) {
    stage.done(`${packages.length} packages installed`);
    return true;
  }
  process.stderr.write(`\n${output}`);
  stage.fail(failure);
  const hint = output.includes("EUSAGE")
    ? "package-lock.json does not fit package.json: run npm install"
    : "check the network or the npm registry setting (npm config get registry), then start again";
  process.stderr.write(`hint: ${hint}\n`);
  return false;
}
