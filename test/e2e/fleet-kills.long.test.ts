/**
 * Instances of a served fleet are killed, one after the other, while clients go on asking: whole answers stay the right
 * ones, streams that are cut off say so, each instance comes back and answers, and nothing is left behind or grows.
 * MILLRACE_FLEET_KILLS makes it longer. The second test does so with a real vLLM (MILLRACE_VLLM names its program;
 * scripts/engines/vllm.sh sets up its CPU build).
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { convertModel } from "../../src/convert/convert.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { isAlive } from "../helpers/fleet.js";
import { FleetProcess, until } from "../helpers/fleet-process.js";
import { realVllm } from "../helpers/real-engines.js";

const NUM_KILLS = Number(process.env.MILLRACE_FLEET_KILLS ?? "3");
const NUM_CLIENTS = 6;
const NUM_KINDS = 12;
/** An instance that crashes five times within two minutes is given up. */
const PACE_MS = NUM_KILLS < 12 ? 0 : 10_500;
const FLEET = {
  models: [{ name: "mill-base", model: "models/mill-base.gguf", instances: 3, options: { threads: 1 } }],
};

interface Answer {
  readonly kind: number;
  readonly isStream: boolean;
  readonly status: number;
  readonly text: string;
  readonly isWhole: boolean;
  readonly errorCode: string | undefined;
}

interface Chunk {
  readonly choices?: readonly { readonly text: string }[];
  readonly error?: { readonly code: string };
}

async function ask(url: string, kind: number, isStream: boolean): Promise<Answer> {
  const prompt = `Story ${kind}: a miller went to the river with his ${["cat", "dog", "fox"][kind % 3]}.`;
  const sampling = { max_tokens: 80, ignore_eos: true, temperature: kind % 2, seed: kind };
  const body = JSON.stringify({ model: "mill-base", prompt, ...sampling, stream: isStream });
  const response = await fetch(`${url}/v1/completions`, { method: "POST", body });
  const { status } = response;
  const received = await response.text();
  const events = isStream && status === 200 ? received.split("\n\n") : [`data: ${received}`];
  const chunks = events
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice("data: ".length)) as Chunk);
  const errorCode = chunks.find(({ error }) => error !== undefined)?.error?.code;
  const text = chunks.map(({ choices }) => choices?.[0]?.text ?? "").join("");
  const isWhole = isStream ? received.endsWith("data: [DONE]\n\n") : errorCode === undefined;
  return { kind, isStream, status, text, isWhole, errorCode };
}

/** Clients that ask without pause. @param askOne the i-th request, of the client at `index` */
function startClients<T>(askOne: (i: number, index: number) => Promise<T>) {
  const answers: T[] = [];
  let isOver = false;
  const client = async (index: number) => {
    for (let i = index; !isOver; i++) {
      answers.push(await askOne(i, index));
      await sleep(20);
    }
  };
  const all = Promise.all(Array.from({ length: NUM_CLIENTS }, (_, index) => client(index)));
  return {
    /** @returns all answers */
    async stop() {
      isOver = true;
      await all;
      return answers;
    },
  };
}

/**
 * Kills an instance that computes, and waits until it computes again.
 * @returns its old process, and how long it was away
 */
async function killOne(fleet: FleetProcess, index: number, limitMs: number) {
  const id = `mill-base-${index}`;
  const now = async () => (await fleet.instances()).find((instance) => instance.id === id)!;
  await until(async () => (await now()).in_flight > 0, `requests on ${id}`, limitMs);
  const { pid, starts } = await now();
  const killedMs = performance.now();
  process.kill(pid, "SIGKILL");
  const isBack = async () => {
    const { state, starts: startsNow } = await now();
    return state === "ready" && startsNow === starts + 1;
  };
  await until(isBack, `${id} back`, limitMs);
  const awayMs = performance.now() - killedMs;
  await until(async () => (await now()).in_flight > 0, `requests on ${id} again`, limitMs);
  return { pid, awayMs };
}

const numHandles = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;
const residentMiB = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024;

test.skipIf(process.platform !== "linux")(
  `${NUM_KILLS} kills under load`,
  { timeout: 60_000 + NUM_KILLS * 30_000 },
  async () => {
    const pids = new Set<number>();
    {
      await using fleet = await FleetProcess.start(FLEET);
      const expected = await Promise.all(Array.from({ length: NUM_KINDS }, (_, kind) => ask(fleet.url, kind, false)));
      const clients = startClients((i, index) => ask(fleet.url, i % NUM_KINDS, index % 2 === 0));
      const memory: number[] = [];
      const handles: number[] = [];
      for (let kill = 0; kill < NUM_KILLS; kill++) {
        const pace = sleep(PACE_MS);
        const killed = await killOne(fleet, kill % 3, 30_000);
        pids.add(killed.pid);
        await pace;
        memory.push(residentMiB(fleet.pid));
        handles.push(numHandles(fleet.pid));
      }
      const answers = await clients.stop();
      for (const { kind, status, text, isWhole, isStream, errorCode } of answers) {
        expect(status).toBe(200);
        if (isWhole) expect(text).toBe(expected[kind]!.text);
        else
          expect([isStream, errorCode, expected[kind]!.text.startsWith(text)]).toEqual([true, "upstream_failed", true]);
      }
      const numCut = answers.filter(({ isWhole }) => !isWhole).length;
      process.stderr.write(
        `${NUM_KILLS} kills, ${answers.length} answers, ${numCut} streams cut off; memory ${memory.map((mib) => mib.toFixed(0)).join(" ")} MiB; open files ${handles.join(" ")}\n`,
      );
      for (const { pid } of await fleet.instances()) pids.add(pid);
      // Connections of clients and instances come and go; a leak would leave some with every kill.
      expect(Math.max(...handles.slice(-5))).toBeLessThan(handles[0]! + 30);
    }
    await until(() => [...pids].every((pid) => !isAlive(pid)), "all engines gone");
  },
);

const VLLM = process.env.MILLRACE_VLLM;
const NUM_CHATS = 40;
/** Of a vLLM without a GPU, beside another one and other work. */
const VLLM_START_MS = 240_000;
const folder = mkdtempSync(join(tmpdir(), "millrace-kills-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** @returns the text of a greedy chat's answer, or the error in its place */
async function chat(url: string, kind: number): Promise<string> {
  const [animal, place] = [["cat", "dog", "fox", "bird", "hen"][kind % 5], ["river", "mill", "tree", "boat"][kind % 4]];
  const story = `Write a story about a ${animal} and a ${place}.`;
  const content = kind % 2 === 0 ? `Calculate ${900 - 7 * kind} - ${100 + 13 * kind}.` : story;
  const body = { model: "mill-base", messages: [{ role: "user", content }], max_tokens: 60, temperature: 0 };
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", body: JSON.stringify(body) });
  const received = await response.text();
  if (response.status !== 200) return `${response.status}: ${received}`;
  return (JSON.parse(received) as { choices: [{ message: { content: string } }] }).choices[0].message.content;
}

test.skipIf(VLLM === undefined || process.platform !== "linux")(
  `${NUM_KILLS} kills of a real vLLM under load (needs MILLRACE_VLLM)`,
  { timeout: (NUM_KILLS + 2) * VLLM_START_MS },
  async () => {
    const model = join(folder, "mill-base");
    await convertModel({ model: join(repositoryRoot(), "models/mill-base.gguf"), out: model, type: "BF16" });
    const options = { threads: 1, "max-model-len": 1024, "max-num-seqs": 8, "enable-prefix-caching": true };
    const timeout = `${VLLM_START_MS / 1000}s`;
    const vllm = { ...realVllm(VLLM!), name: "mill-base", model, instances: 2, options, "start-timeout": timeout };
    const pids = new Set<number>();
    {
      await using fleet = await FleetProcess.start({ models: [vllm] });
      const areReady = async () => (await fleet.instances()).every(({ state }) => state === "ready");
      await until(areReady, "both ready", VLLM_START_MS);
      const expected: string[] = [];
      for (let kind = 0; kind < NUM_CHATS; kind++) expected.push(await chat(fleet.url, kind));
      expect(new Set(expected).size).toBeGreaterThan(NUM_CHATS / 2);
      const clients = startClients(async (i) => ({ kind: i % NUM_CHATS, text: await chat(fleet.url, i % NUM_CHATS) }));
      const awayS: number[] = [];
      for (let kill = 0; kill < NUM_KILLS; kill++) {
        await until(areReady, "both ready", VLLM_START_MS);
        const { pid, awayMs } = await killOne(fleet, kill % 2, VLLM_START_MS);
        pids.add(pid);
        awayS.push(awayMs / 1000);
      }
      const answers = await clients.stop();
      const wrong = answers.filter(({ kind, text }) => text !== expected[kind]);
      process.stderr.write(
        `${NUM_KILLS} kills of vLLM, ${answers.length} answers, ${wrong.length} wrong; away for ${awayS.map((s) => s.toFixed(0)).join(" ")} s\n`,
      );
      expect(wrong).toEqual([]);
      for (const { pid } of await fleet.instances()) pids.add(pid);
    }
    await until(() => [...pids].every((pid) => !isAlive(pid)), "all engines gone");
  },
);
