/**
 * The Python `ollama` package against a real server and a fleet of two models; needs a Python with it (MILLRACE_PYTHON;
 * CI makes one).
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { canImport, python } from "../helpers/python.js";
import { startTestServer } from "../helpers/server.js";

const isPresent = canImport("ollama", "pip install ollama");

async function drive(url: string): Promise<string> {
  const script = join(repositoryRoot(), "test/e2e/ollama-python.py");
  const { stdout } = await promisify(execFile)(python, [script, url, "mill-base"], { timeout: 60_000 });
  return stdout.trim();
}

test.skipIf(!isPresent)("the Python ollama package on an engine [needs a Python with ollama]", async () => {
  await using server = await startTestServer(["--threads", "1"]);
  expect(await drive(server.url)).toBe("ok");
});

test.skipIf(!isPresent)("the Python ollama package on a fleet [needs a Python with ollama]", async () => {
  const model = join(repositoryRoot(), "models/mill-base.gguf");
  const models = ["mill-two", "mill-base"].map((name) => ({ name, model, options: { threads: 1 } }));
  await using fleet = await FleetProcess.start({ models });
  expect(await drive(fleet.url)).toBe("ok");
});
