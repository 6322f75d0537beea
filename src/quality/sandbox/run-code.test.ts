/** A system without confinement: a user namespace in which no further namespace can be created. */
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

describe.skipIf((await whyUnconfined("typescript")) !== undefined)("without a jail", () => {
  it(
    "generated code is refused, with the reason and the ways out",
    () => {
      const text = runWithoutWalls({ MILLRACE_GENERATED_CODE: "" });
      expect(text).toMatch(/^confinement_missing expected a jail for generated code, got none: .*unshare/);
      expect(text).toContain("user namespaces");
      expect(text).toContain("MILLRACE_GENERATED_CODE=unconfined");
    },
    TIMEOUT_MS,
  );

  it(
    "it runs if the user allows it",
    () => {
      expect(runWithoutWalls({ MILLRACE_GENERATED_CODE: "unconfined" }).trim()).toBe('[{"value":2}]');
    },
    TIMEOUT_MS,
  );

  it(
    "another value of the variable is refused",
    () => {
      expect(runWithoutWalls({ MILLRACE_GENERATED_CODE: "yes" })).toContain("confinement_missing");
    },
    TIMEOUT_MS,
  );
});
