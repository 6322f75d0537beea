/**
 * A model that `convert` wrote answers in vLLM and llama-server as here. MILLRACE_VLLM and MILLRACE_LLAMA_SERVER name
 * their programs; the scripts in scripts/engines set them up.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { convertModel } from "../../src/convert/convert.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { modelSpec, testFleet } from "../helpers/fleet.js";

const vllm = process.env.MILLRACE_VLLM;
const llamaServer = process.env.MILLRACE_LLAMA_SERVER;
const TIMEOUT_MS = 1_500_000;
const NUM_CHATS = 100;
const ANSWER_TOKENS = 200;
const MODEL = join(repositoryRoot(), "models/mill-base.gguf");

const folder = mkdtempSync(join(tmpdir(), "millrace-convert-vllm-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Message {
  readonly role: string;
  readonly content: string;
}

/** Questions that the bundled model was not trained on: another seed than the training's. */
function questions(): Message[][] {
  const generator = join(repositoryRoot(), "dist/models/corpus/generate.js");
  const lines = execFileSync(process.execPath, [generator, "--seed", "1000001", "--count", String(NUM_CHATS)]);
  return String(lines)
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as { readonly messages: readonly Message[] }).messages)
    .map((messages) =>
      messages.slice(
        0,
        messages.findLastIndex(({ role }) => role === "assistant"),
      ),
    );
}

type Ask = (path: string, body: object) => Promise<Record<string, never>>;

const OPTIONS = { maxModelLen: 1024, maxNumSeqs: 8 };

const vllmOf = (type: "F32" | "F16") => ({
  engine: "vllm" as const,
  program: [vllm!, "serve"] as const,
  args: ["--enforce-eager", "--dtype", type === "F32" ? "float32" : "float16"],
  options: { ...OPTIONS, kvCacheMemoryBytes: 2 ** 28 },
});

const LLAMA_SERVER = {
  engine: "llama-server" as const,
  program: [llamaServer ?? "llama-server"] as const,
  args: ["--jinja", "-ctk", "f32", "-ctv", "f32", "-fa", "off"],
  options: OPTIONS,
};

/** Calls `use` with both engines: ours with the GGUF file, theirs with a converted copy. */
async function withBoth(
  type: "F32" | "F16",
  engine: ReturnType<typeof vllmOf> | typeof LLAMA_SERVER,
  use: (ours: Ask, theirs: Ask) => Promise<void>,
): Promise<void> {
  const copy = join(folder, engine.engine === "vllm" ? type : `${type}.gguf`);
  await convertModel({ model: MODEL, out: copy, type });
  await using fleet = testFleet();
  const common = { startTimeoutMs: 300_000, options: OPTIONS };
  fleet.supervisor.addModel(
    modelSpec({
      ...common,
      name: "ours",
      engine: "millrace",
      program: [process.execPath, join(repositoryRoot(), "bin/millrace.js"), "engine"],
      options: { ...common.options, model: MODEL },
    }),
  );
  fleet.supervisor.addModel(
    modelSpec({ ...common, name: "theirs", ...engine, options: { ...engine.options, model: copy } }),
  );
  const asker = async (name: string): Promise<Ask> => {
    const { target } = await fleet.supervisor.whenReady(name);
    return async (path, body) => {
      const response = await fetch(`${target!.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: target!.modelName ?? name, ...body }),
      });
      expect(response.status, await response.clone().text()).toBe(200);
      return (await response.json()) as Record<string, never>;
    };
  };
  await use(await asker("ours"), await asker("theirs"));
}

async function expectEqualAnswers(ours: Ask, theirs: Ask): Promise<void> {
  let numEqual = 0;
  for (const messages of questions()) {
    const body = { messages, max_tokens: ANSWER_TOKENS, temperature: 0 };
    const [a, b] = await Promise.all([ours, theirs].map((ask) => ask("/v1/chat/completions", body)));
    const textOf = (answer: unknown) =>
      (answer as { readonly choices: readonly { readonly message: { readonly content: string } }[] }).choices[0]!
        .message.content;
    numEqual += Number(textOf(a) === textOf(b));
  }
  console.info(`${numEqual} of ${NUM_CHATS} answers are equal`);
  expect(numEqual).toBeGreaterThanOrEqual(99);
}

describe.skipIf(llamaServer === undefined)("a converted model in llama-server (needs MILLRACE_LLAMA_SERVER)", () => {
  it(
    "gives our greedy answers in float32: at least 99 of 100 chats",
    () => withBoth("F32", LLAMA_SERVER, expectEqualAnswers),
    TIMEOUT_MS,
  );
});

describe.skipIf(vllm === undefined)("a converted model in vLLM (needs MILLRACE_VLLM)", () => {
  it(
    "gives our greedy answers in float32: at least 99 of 100 chats",
    () => withBoth("F32", vllmOf("F32"), expectEqualAnswers),
    TIMEOUT_MS,
  );

  it(
    "has our likeliest token in float16 at 99.5 % of the positions of our own answers",
    () =>
      withBoth("F16", vllmOf("F16"), async (ours, theirs) => {
        let numSame = 0;
        let numPositions = 0;
        for (const messages of questions()) {
          const { tokens: prompt } = (await ours("/tokenize", { messages })) as unknown as { tokens: number[] };
          const { choices } = (await ours("/v1/completions", {
            prompt,
            max_tokens: ANSWER_TOKENS,
            temperature: 0,
            return_token_ids: true,
          })) as unknown as { choices: { token_ids: number[] }[] };
          const whole = [...prompt, ...choices[0]!.token_ids];
          const [a, b] = await Promise.all(
            [ours, theirs].map((ask) =>
              ask("/v1/completions", { prompt: whole, max_tokens: 1, prompt_logprobs: 1 }).then(likeliest),
            ),
          );
          for (const [i, id] of a!.entries()) {
            if (id === undefined) continue;
            numPositions++;
            numSame += Number(id === b![i]);
          }
        }
        console.info(`${numSame} of ${numPositions} positions have the same likeliest token`);
        expect(numSame / numPositions).toBeGreaterThanOrEqual(0.995);
      }),
    TIMEOUT_MS,
  );
});

/** The likeliest token id of each prompt position. */
function likeliest(answer: unknown): (string | undefined)[] {
  const { choices } = answer as {
    readonly choices: readonly { readonly prompt_logprobs: readonly (Record<string, { rank: number }> | null)[] }[];
  };
  return choices[0]!.prompt_logprobs.map((position) =>
    position === null ? undefined : Object.entries(position).find(([, { rank }]) => rank === 1)?.[0],
  );
}
