/** `npm start` under the signals of a terminal and of a supervisor. */
import { spawn } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";

/** npm in a process group of its own, as a terminal's job is. */
async function start(): Promise<{ pid: number; url: string; output: () => string; ended: Promise<void> }> {
  const child = spawn("npm", ["start", "--", "--port", "0"], { cwd: repositoryRoot(), detached: true });
  const pid = child.pid!;
  onTestFinished(() => {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // The group has ended, as it should.
    }
  });
  let output = "";
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const url = await new Promise<string>((resolve, reject) => {
    const read = (text: string): void => {
      output += text;
      const found = /try:\s+curl (http:\/\/[\d.]+:\d+)\//.exec(output);
      if (found !== null) resolve(found[1]!);
    };
    child.stdout.setEncoding("utf8").on("data", read);
    child.stderr.setEncoding("utf8").on("data", read);
    ended.then(() => reject(new Error(`npm start ended: ${output}`)));
  });
  return { pid, url, output: () => output, ended };
}

test.each([
  ["SIGTERM", "npm alone, as by a supervisor", (pid: number) => process.kill(pid, "SIGTERM")],
  ["SIGINT", "the whole group, as by Ctrl-C", (pid: number) => process.kill(-pid, "SIGINT")],
])("%s to %s finishes the running requests and ends the server", async (_name, _whom, send) => {
  const { pid, url, output, ended } = await start();
  const answer = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "mill-base",
      prompt: "Once",
      max_tokens: 1900,
      n: 4,
      ignore_eos: true,
      stream: true,
    }),
  });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value!;
  send(pid);
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  expect(text.trimEnd().endsWith("data: [DONE]")).toBe(true);
  await ended;
  expect(output()).toContain("finishing the running requests");
  await expect(fetch(`${url}/health`)).rejects.toThrow();
});
