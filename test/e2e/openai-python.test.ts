/** The official Python client against the real server; needs a Python with `openai` (MILLRACE_PYTHON; CI makes one). */
import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { startTestServer } from "../helpers/server.js";

const python = process.env.MILLRACE_PYTHON ?? "python3";

function hasOpenai(): boolean {
  try {
    execFileSync(python, ["-c", "import openai"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

const isPresent = hasOpenai();
if (!isPresent) console.warn(`SKIPPED: ${python} cannot import openai (pip install openai, or set MILLRACE_PYTHON)`);

test.skipIf(!isPresent)("the Python openai package [needs a Python with openai]", async () => {
  await using server = await startTestServer([]);
  const script = join(repositoryRoot(), "test/e2e/openai-python.py");
  const { stdout } = await promisify(execFile)(python, [script, server.url], { timeout: 60_000 });
  expect(stdout.trim()).toBe("ok");
});
