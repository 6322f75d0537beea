/**
 * A model's file that is cut off while it is served: whoever waits gets a coded error, the log says why, and the
 * process ends, to be started again.
 */
import { copyFileSync, readFileSync, renameSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { FleetProcess, until } from "../helpers/fleet-process.js";
import { startTestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

/** So much work that a client which reads late still cuts the file off in the middle of it. */
const LENGTH = { ignore_eos: true, min_tokens: 400, max_tokens: 400, n: 16 };
const SAID =
  /^error \[model_file_changed\]: expected (\S+) to stay as it was when it was opened, got 4096 bytes instead of \d+$/m;

function copyOfModel(): string {
  const path = join(tempTree({}), "stories.gguf");
  copyFileSync(fixture("models/stories260k.gguf"), path);
  return path;
}

const ask = (url: string, fields: object) =>
  fetch(`${url}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "stories", prompt: "Once", ...fields }),
  });

/** Starts a stream and cuts the model's file off under it. @returns all of the stream */
async function cutUnderStream(url: string, path: string): Promise<string> {
  const answer = await ask(url, { stream: true, ...LENGTH });
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of answer.body!) {
    if (text === "") truncateSync(path, 4096);
    text += decoder.decode(chunk, { stream: true });
  }
  return text;
}

test("the server ends its streams with an error, names the file and exits", async () => {
  const path = copyOfModel();
  await using server = await startTestServer(["--model", path]);
  const text = await cutUnderStream(server.url, path);
  expect(text).toMatch(/^data: .*"code":"model_file_changed"/m);
  expect(await server.exited).toBe(1);
  expect(SAID.exec(server.stderr())?.[1]).toBe(path);
});

test("an idle server notices the change, too, and exits", async () => {
  const path = copyOfModel();
  await using server = await startTestServer(["--model", path]);
  truncateSync(path, 4096);
  expect(await server.exited).toBe(1);
  expect(SAID.exec(server.stderr())?.[1]).toBe(path);
});

test("a new date of a file has no effect, and changed bytes end the server", async () => {
  const path = copyOfModel();
  await using server = await startTestServer(["--model", path]);
  utimesSync(path, new Date(), new Date(Date.now() + 60_000));
  // An idle server looks every two seconds.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  expect((await ask(server.url, { max_tokens: 4 })).status).toBe(200);
  const bytes = readFileSync(path);
  writeFileSync(path, bytes.fill(7, bytes.length - 100), { flag: "r+" });
  expect(await server.exited).toBe(1);
  expect(server.stderr()).toMatch(/^error \[model_file_changed\]: .*stories.gguf .*, got one that was written to$/m);
});

test("a fleet reports the reason and restarts the instance", async () => {
  const path = copyOfModel();
  await using fleet = await FleetProcess.start({ models: [{ name: "stories", model: path }] });
  expect(await cutUnderStream(fleet.url, path)).toContain('"error"');
  const whole = copyOfModel();
  renameSync(whole, path);
  await until(async () => {
    const [instance] = await fleet.instances();
    return instance?.state === "ready" && instance.starts > 1;
  }, "a second start");
  expect(fleet.text).toMatch(/"error":"error \[model_file_changed\]: expected [^"]*stories.gguf to stay as it was/);
  expect((await ask(fleet.url, { max_tokens: 4 })).status).toBe(200);
});
