/** Where no walls can be put up: here, in a user namespace that has no other user, so that nobody can be become and nothing be mapped. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../core/package-root.js";
import { whyUnconfined } from "./run-code.js";

const TIMEOUT_MS = 120_000;

function runWithoutWalls(environment: NodeJS.ProcessEnv): string {
  const module = join(packageRoot(), "dist/src/quality/sandbox/run-code.js");
  const script = `import { runCode } from ${JSON.stringify(module)};
    const job = { code: "function f(a: number) { return a + 1; }", name: "f", calls: [[1]] };
    try { console.log(JSON.stringify(await runCode("typescript", job))); } catch (error) { console.log(error.code, error.message, error.hint); }`;
  const limits = "echo 0 > /proc/sys/user/max_user_namespaces; echo 0 > /proc/sys/user/max_mnt_namespaces";
  const node = ["sh", "-c", `${limits}; exec "$@"`, "sh", process.execPath, "--input-type=module", "--eval", script];
  const args = ["--user", "--map-root-user", ...node];
  return spawnSync("unshare", args, { encoding: "utf8", env: { ...process.env, ...environment } }).stdout;
}

describe.skipIf((await whyUnconfined("typescript")) !== undefined)("without walls", () => {
  it(
    "generated code is refused, with the reason and the ways out",
    () => {
      const text = runWithoutWalls({ MILLRACE_GENERATED_CODE: "" });
      expect(text).toMatch(/^confinement_missing expected walls around generated code, got none: .*unshare/);
      expect(text).toContain("user namespaces");
      expect(text).toContain("MILLRACE_GENERATED_CODE=unconfined");
    },
    TIMEOUT_MS,
  );

  it(
    "it runs where the user says so",
    () => {
      expect(runWithoutWalls({ MILLRACE_GENERATED_CODE: "unconfined" }).trim()).toBe('[{"value":2}]');
    },
    TIMEOUT_MS,
  );

  it(
    "another word than that is refused",
    () => {
      expect(runWithoutWalls({ MILLRACE_GENERATED_CODE: "yes" })).toContain("confinement_missing");
    },
    TIMEOUT_MS,
  );
});
