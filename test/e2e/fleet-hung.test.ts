/**
 * One of three instances of a served fleet is stopped with SIGSTOP, so that its port takes connections and nobody
 * answers: whatever had no answer yet is answered by the others within some ten seconds, streams that have begun wait,
 * and the same process serves again after SIGCONT.
 */
import { expect, test } from "vitest";
import { type FleetInstance, FleetProcess, until } from "../helpers/fleet-process.js";

const NUM_BEFORE = 9;
const NUM_KINDS = 9;
/**
 * From the stop to the last answer, beside what the answers take: on two instances, behind streams, on a machine that
 * may be busy.
 */
const RESCUED_WITHIN_MS = 10_000;
const SLOWER = 4;
const FLEET = {
  models: [{ name: "mill-base", model: "models/mill-base.gguf", instances: 3, options: { threads: 1 } }],
};

const promptOf = (kind: number): string => `Story ${kind}: a miller went to the river with his ${kind} dogs.`;

function ask(url: string, kind: number, more: object = {}): Promise<Response> {
  const body = { model: "mill-base", prompt: promptOf(kind), max_tokens: 80, ignore_eos: true, temperature: 1 };
  return fetch(`${url}/v1/completions`, { method: "POST", body: JSON.stringify({ ...body, seed: kind, ...more }) });
}

async function textOf(response: Response): Promise<string> {
  const { choices } = (await response.json()) as { readonly choices?: readonly { readonly text: string }[] };
  return `${response.status} ${choices?.[0]?.text ?? "no answer"}`;
}

async function textOfStream(response: Response): Promise<string> {
  const events = (await response.text()).split("\n\n").filter((event) => event.startsWith("data: {"));
  const chunks = events.map(
    (event) => JSON.parse(event.slice("data: ".length)) as { choices: readonly { readonly text: string }[] },
  );
  return `${response.status} ${chunks.map(({ choices }) => choices[0]!.text).join("")}`;
}

test.skipIf(process.platform === "win32")("a stopped instance among three", { timeout: 120_000 }, async () => {
  await using fleet = await FleetProcess.start(FLEET);
  const startMs = performance.now();
  const expected = await Promise.all(
    Array.from({ length: NUM_KINDS }, async (_, kind) => textOf(await ask(fleet.url, kind))),
  );
  const answersMs = performance.now() - startMs;
  const victimOf = (instances: readonly FleetInstance[]) => instances.find(({ id }) => id === "mill-base-1")!;
  // Streams wherever routing puts them, with their first bytes read.
  const streams = await Promise.all(
    Array.from({ length: 3 }, (_, i) => ask(fleet.url, i, { stream: true, max_tokens: 500 })),
  );
  const { pid } = victimOf(await fleet.instances());
  const timed = async (kind: number) => {
    const text = await textOf(await ask(fleet.url, kind));
    return { kind, text, atMs: performance.now() };
  };
  const before = Array.from({ length: NUM_BEFORE }, (_, i) => timed(i % NUM_KINDS));
  await until(async () => victimOf(await fleet.instances()).in_flight > 0, "requests under way there");
  process.kill(pid, "SIGSTOP");
  const stoppedMs = performance.now();
  // Nobody knows yet: some of these go where their beginnings are cached, which is there.
  const after = Array.from({ length: NUM_KINDS }, (_, kind) => timed(kind));
  const seen = await Promise.all([...before, ...after]);
  for (const { kind, text } of seen) expect(text).toBe(expected[kind]);
  const lastMs = Math.max(...seen.map(({ atMs }) => atMs)) - stoppedMs;
  process.stderr.write(`the last of ${seen.length} answers came ${(lastMs / 1000).toFixed(1)} s after the stop\n`);
  expect(lastMs).toBeLessThan(RESCUED_WITHIN_MS + SLOWER * answersMs);
  const metrics = await (await fetch(`${fleet.url}/metrics`)).text();
  expect(metrics).toMatch(/retries_total\{model="mill-base",instance="mill-base-1"\} [1-9]/);
  expect(metrics).toMatch(/instance_state\{[^}]*instance="mill-base-1"[^}]*state="(suspect|failed)"\} 1/);
  process.kill(pid, "SIGCONT");
  await until(async () => victimOf(await fleet.instances()).state === "ready", "its return");
  // Late, and whole.
  for (const [i, text] of (await Promise.all(streams.map(textOfStream))).entries()) {
    expect(text.startsWith(expected[i]!)).toBe(true);
  }
  expect(victimOf(await fleet.instances())).toMatchObject({ pid, starts: 1 });
  await until(async () => (await fleet.instances()).every((each) => each.in_flight === 0), "nothing under way");
});

test.skipIf(process.platform === "win32")("the only instance is killed", { timeout: 120_000 }, async () => {
  const [model] = FLEET.models;
  await using fleet = await FleetProcess.start({ models: [{ ...model, instances: 1 }] });
  const expected = await Promise.all(
    Array.from({ length: NUM_KINDS }, async (_, kind) => textOf(await ask(fleet.url, kind))),
  );
  const answers = Array.from({ length: NUM_KINDS }, async (_, kind) => textOf(await ask(fleet.url, kind)));
  await until(async () => (await fleet.instances())[0]!.in_flight > 0, "requests under way");
  const { pid } = (await fleet.instances())[0]!;
  process.kill(pid, "SIGKILL");
  // Those under way, those that meet a dead port, and those that come while it is started again.
  const after = Array.from({ length: NUM_KINDS }, async (_, i) => {
    await new Promise((resolve) => setTimeout(resolve, 100 * i));
    return textOf(await ask(fleet.url, i % NUM_KINDS));
  });
  const seen = await Promise.all([...answers, ...after]);
  for (const [i, text] of seen.entries()) expect(text).toBe(expected[i % NUM_KINDS]);
  expect((await fleet.instances())[0]).toMatchObject({ starts: 2, state: "ready", in_flight: 0 });
});
