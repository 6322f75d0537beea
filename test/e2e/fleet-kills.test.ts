/**
 * Instances of a served fleet are killed, one after the other, while clients go on asking: whole answers stay the right ones, streams that are cut off say
 * so, each instance comes back and answers, and nothing is left behind or grows. MILLRACE_FLEET_KILLS makes it longer.
 */
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { isAlive } from "../helpers/fleet.js";
import { FleetProcess, until } from "../helpers/fleet-process.js";

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
      const answers: Answer[] = [];
      let isOver = false;
      const client = async (index: number) => {
        for (let i = index; !isOver; i++) {
          answers.push(await ask(fleet.url, i % NUM_KINDS, index % 2 === 0));
          await sleep(20);
        }
      };
      const clients = Promise.all(Array.from({ length: NUM_CLIENTS }, (_, index) => client(index)));
      const memory: number[] = [];
      const handles: number[] = [];
      for (let kill = 0; kill < NUM_KILLS; kill++) {
        const pace = sleep(PACE_MS);
        const id = `mill-base-${kill % 3}`;
        const victimNow = async () => (await fleet.instances()).find((instance) => instance.id === id)!;
        await until(async () => (await victimNow()).inFlight > 0, `requests on ${id}`);
        const { pid, starts } = await victimNow();
        pids.add(pid);
        process.kill(pid, "SIGKILL");
        await until(
          async () => (await victimNow()).state === "ready" && (await victimNow()).starts === starts + 1,
          `${id} back`,
        );
        await until(async () => (await victimNow()).inFlight > 0, `requests on ${id} again`);
        await pace;
        memory.push(residentMiB(fleet.pid));
        handles.push(numHandles(fleet.pid));
      }
      isOver = true;
      await clients;
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
