/** The official Python client against the real server; needs a Python with `openai` (MILLRACE_PYTHON; CI makes one). */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { canImport, python } from "../helpers/python.js";
import { startTestServer } from "../helpers/server.js";

const isPresent = canImport("openai", "pip install openai");

test.skipIf(!isPresent)("the Python openai package [needs a Python with openai]", async () => {
  await using server = await startTestServer([]);
  const script = join(repositoryRoot(), "test/e2e/openai-python.py");
  const { stdout } = await promisify(execFile)(python, [script, server.url], { timeout: 60_000 });
  expect(stdout.trim()).toBe("ok");
});
