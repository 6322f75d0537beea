/** Contenders as small separate processes: order, output and failures. */
import { expect, test } from "vitest";
import { batchedBench, type Contender, millrace } from "./contenders.js";
import { parseResultsJson } from "./parse.js";
import { outputOf, type PeerRun, runPeers } from "./run.js";
import type { Shape } from "./shapes.js";

const SHAPE: Shape = { name: "decode", promptTokens: 8, genTokens: 4, batches: [2] };
const MODEL = { name: "m", path: "/models/m.gguf", vocabSize: 100 };

function script(name: string, code: string): Contender {
  return { name, command: () => [process.execPath, "-e", code], parse: parseResultsJson };
}

const row = JSON.stringify({ batch: 2, promptTokens: 8, genTokens: 4, prefillTokensPerS: 5, decodeTokensPerS: 6 });
const prints = (stream: string): string => `process.${stream}.write('{"results":[${row}]}\\n')`;

test("contenders take turns in alternating order, and may print to stdout or stderr", async () => {
  const runs: PeerRun[] = [];
  const contenders = [script("ours", prints("stdout")), script("theirs", prints("stderr"))];
  await runPeers({ models: [MODEL], shapes: [SHAPE], contenders, rounds: 2, runWith: [] }, (run) => runs.push(run));
  expect(runs.map(({ contender, round }) => [contender, round])).toEqual([
    ["ours", 1],
    ["theirs", 1],
    ["theirs", 2],
    ["ours", 2],
  ]);
  expect(runs[1]).toMatchObject({ model: "m", shape: SHAPE, rows: [{ batch: 2, decodeTokensPerS: 6 }] });
});

test("the words of run-with come before the command", async () => {
  const runs: PeerRun[] = [];
  const runWith = [process.execPath, "-e", prints("stdout"), "--"];
  const contender = { ...script("ours", ""), command: () => ["/nowhere/tool"] };
  await runPeers({ models: [MODEL], shapes: [SHAPE], contenders: [contender], rounds: 1, runWith }, (run) =>
    runs.push(run),
  );
  expect(runs).toHaveLength(1);
});

test("a failed or missing process is an error with its last output and the command", async () => {
  const code = "process.stderr.write('no such model'); process.exit(3)";
  await expect(outputOf("peer", [process.execPath, "-e", code])).rejects.toMatchObject({
    code: "peer_failed",
    message: "expected peer to measure, got exit 3: no such model",
    hint: expect.stringContaining(process.execPath),
  });
  await expect(outputOf("peer", ["/nowhere/tool"])).rejects.toMatchObject({
    code: "peer_failed",
    message: expect.stringContaining("ENOENT"),
  });
});

test("every engine gets the same file, lengths, batch sizes and threads", () => {
  const shape: Shape = { name: "decode", promptTokens: 64, genTokens: 16, batches: [1, 8] };
  const ours = millrace(2, ["--block-size", "32"]).command(MODEL, shape).slice(2).join(" ");
  expect(ours).toBe(
    "bench engine --json --repetitions 1 --model /models/m.gguf --threads 2 --prompt-tokens 64 --gen-tokens 16 --batch 1,8 --block-size 32",
  );
  // Room for eight sequences, each in whole units of 256.
  expect(batchedBench("llama.cpp", "/bin/bb", 2, ["-fa", "on"]).command(MODEL, shape).join(" ")).toBe(
    "/bin/bb -m /models/m.gguf -c 2048 -t 2 -npp 64 -ntg 16 -npl 1,8 -fa on",
  );
});
