/** Commands without an engine, from arguments to output, errors and exit codes. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { fixture, fixturesDir, hasFixture } from "../../test/helpers/fixtures.js";
import { cases } from "../../test/helpers/long.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { runMain } from "../../test/helpers/run-main.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { helpWidth } from "./output/help-format.js";

const STORIES = fixture("models/stories260k.gguf");

afterEach(() => void vi.unstubAllEnvs());

describe("usage errors exit with 2, with what was expected and a suggestion", () => {
  const CASES: readonly [string, readonly string[], RegExp, RegExp][] = [
    [
      "an unknown option of the default command",
      ["--prot", "1"],
      /expected an option of this command, got --prot$/m,
      /Did you mean --port/,
    ],
    [
      "an unknown option of a command",
      ["inspect", "--jsn"],
      /expected an option of this command, got --jsn$/m,
      /Did you mean --json/,
    ],
    ["an unknown command", ["tokenise"], /expected one of the commands, got tokenise$/m, /Did you mean tokenize/],
    [
      "a value out of range",
      ["serve", "--port", "65536"],
      /expected --port to be an integer in \[0, 65535\]/,
      /--help/,
    ],
    [
      "a bad size",
      ["engine", "--kv-cache-memory-bytes", "lots"],
      /--kv-cache-memory-bytes to be a positive size/,
      /--help/,
    ],
    [
      "a format nobody reads",
      ["--tool-call-parser", "xml"],
      /--tool-call-parser to be one of auto, deepseek_v3, deepseek_v31/,
      /--help/,
    ],
    ["a bad choice", ["--batching", "dynamic"], /--batching to be one of continuous, static, got "dynamic"/, /--help/],
    ["a policy that is not there", ["--scheduling-policy", "lifo"], /--scheduling-policy to be one of fcfs/, /--help/],
    ["keys to isolate, but none", ["engine", "--isolate-api-keys"], /expected --api-key with --isolate/, /of its own/],
    ["a missing value", ["generate", "--prompt"], /expected a value behind --prompt <text>, got none$/m, /--help/],
    ["a missing option", ["boot"], /expected the option --config <file>, got none$/m, /--help/],
    ["an argument that is missing", ["prompts", "audit"], /expected <file>, got nothing$/m, /--help/],
    [
      "a choice that is none",
      ["convert", "--model", "a", "--out", "b", "--dtype", "int3"],
      /expected --dtype <type> to be one of .*float32.*, got "int3"$/m,
      /--help/,
    ],
    ["an argument too many", ["doctor", "now"], /expected at most 0 arguments, got 1$/m, /--help/],
    [
      "options that exclude each other",
      ["tokenize", "--text", "a", "--text-file", "b"],
      /expected --text <text> or --text-file <\S+>, got both$/m,
      /--help/,
    ],
    [
      "a batch size of none",
      ["bench", "engine", "--batch", "1,0"],
      /--batch to be an integer in \[1, 4096\]/,
      /--help/,
    ],
    [
      "one token to decode",
      ["bench", "engine", "--gen-tokens", "1"],
      /--gen-tokens to be an integer in \[2, /,
      /--help/,
    ],
    [
      "a shared prefix that is all of the prompt",
      ["bench", "engine", "--prompt-tokens", "8", "--shared-prefix", "8"],
      /--shared-prefix below --prompt-tokens 8, got 8/,
      /token of its own/,
    ],
    [
      "a batch that no step can compute",
      ["bench", "engine", "--batch", "64", "--max-num-batched-tokens", "32"],
      /at least the largest --batch, got 32 for 64/,
      /raise --max-num-batched-tokens/,
    ],
    [
      "peers without a model",
      ["bench", "peers", "--llama-cpp", "x"],
      /expected --model with at least one/,
      /same file/,
    ],
    ["no peer", ["bench", "peers", "--model", STORIES], /at least one peer to compare with/, /--llama-cpp, --ik-llama/],
    ["a shape nobody knows", ["bench", "peers", "--shapes", "long"], /one of prefill, decode, context/, /--help/],
    [
      "an evaluation to no folder",
      ["eval", "--out", "/nowhere/run.json"],
      /a folder for \/nowhere\/run\.json, got nothing/,
      /make the folder/,
    ],
    ...["generate", "chat", "eval"].map((command): (typeof CASES)[number] => [
      `a temperature of ${command} that no server takes`,
      [command, "--temperature", "2.5"],
      /expected --temperature to be a number in \[0, 2\], got "2\.5"/,
      /--help/,
    ]),
    ...["--threads=2", "--chat-template=a"].map((flag): (typeof CASES)[number] => [
      `${flag} beside --url`,
      ["generate", "--prompt", "a", "--url", "http://127.0.0.1:1", flag],
      /expected --url to be given without flags of an engine in this process, got "--(threads|chat-template)"/,
      /--help/,
    ]),
    ["generate without a prompt", ["generate"], /expected --prompt, got none/, /with --prompt -: echo/],
    [
      "raw and chat together",
      ["generate", "--prompt", "a", "--raw", "--chat"],
      /--raw or --chat, got both/,
      /leave one out/,
    ],
  ];
  test.each(CASES)("%s", async (_name, args, message, hint) => {
    const { stdout, stderr, exitCode } = await runMain(...args);
    expect(stderr).toMatch(/^error \[invalid_option\]: /);
    expect(stderr).toMatch(message);
    expect(stderr.split("\n")[1]).toMatch(/^hint: /);
    expect(stderr).toMatch(hint);
    expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 2 });
  });
});

test("the model may stand behind the command, alone and once", async () => {
  const missing = /file_unreadable.*nowhere\.gguf/;
  expect((await runMain("generate", "nowhere.gguf", "--prompt", "a")).stderr).toMatch(missing);
  expect((await runMain("serve", "nowhere.gguf", "--port", "0")).stderr).toMatch(missing);
  expect((await runMain("inspect", "nowhere.gguf")).stderr).toMatch(missing);
  for (const again of [["--model", "b.gguf"], ["--model=b.gguf"]]) {
    const twice = await runMain("generate", "a.gguf", ...again, "--prompt", "a");
    expect(twice.stderr).toMatch(/expected at most 0 arguments, got 1$/m);
  }
  expect((await runMain("generate", "nowhere.gguf", "more", "--prompt", "a")).stderr).toMatch(/got 1$/m);
});

test("other errors exit with 1, and as JSON with --json", async () => {
  const { stderr, exitCode } = await runMain("inspect", "--model", "/nowhere/model.gguf", "--json");
  expect(JSON.parse(stderr)).toMatchObject({
    error: { code: "file_unreadable", message: expect.stringContaining("/nowhere/model.gguf") },
  });
  expect(exitCode).toBe(1);
});

test("help and version go to stdout and are no errors", async () => {
  const help = await runMain("--help");
  for (const command of ["serve", "engine", "generate", "chat", "tokenize", "inspect", "doctor", "bench", "cache"]) {
    expect(help.stdout).toMatch(new RegExp(`^  ${command} `, "m"));
  }
  expect(help).toMatchObject({ stderr: "", exitCode: 0 });
  expect(await runMain("--version")).toMatchObject({ stdout: "0.1.0\n", stderr: "", exitCode: 0 });
});

describe("tokenize", () => {
  test("the text may stand behind the command, alone and once", async () => {
    const ids = await runMain("tokenize", "Once upon", "--model", STORIES, "--json");
    expect(ids).toEqual(await runMain("tokenize", "--text", "Once upon", "--model", STORIES, "--json"));
    expect(ids.exitCode).toBe(0);
    expect((await runMain("tokenize", "a", "--text", "b")).stderr).toMatch(/got 1$/m);
    expect((await runMain("tokenize", "a", "--text-file", "b")).stderr).toMatch(/expected --text/);
  });

  test("prints ids alone with --json, with BOS only on request", async () => {
    const args = ["tokenize", "--model", STORIES, "--text", "Once upon a time", "--json"];
    const plain = JSON.parse((await runMain(...args)).stdout);
    expect(JSON.parse((await runMain(...args, "--add-special")).stdout)).toEqual([1, ...plain]);
  });

  test("takes a file unchanged, up to the last newline", async () => {
    const root = tempTree({ "plain.txt": "Lily", "newlines.txt": "\r\nLily \n\n" });
    const idsOf = async (...args: readonly string[]): Promise<string> =>
      (await runMain("tokenize", "--model", STORIES, "--json", ...args)).stdout;
    expect(await idsOf("--text-file", join(root, "plain.txt"))).toBe(await idsOf("--text", "Lily"));
    expect(await idsOf("--text-file", join(root, "newlines.txt"))).toBe(await idsOf("--text", "\r\nLily \n\n"));
    expect(await idsOf("--text", "\r\nLily \n\n")).not.toBe(await idsOf("--text", "Lily"));
  });

  test("shows each token without --json, parts of characters as bytes", async () => {
    const { stdout } = await runMain("tokenize", "--model", STORIES, "--text", "Once é");
    expect(stdout).toMatch(/^id {2,}text$/m);
    expect(stdout).toMatch(/ " ?Once"$/m);
    expect(stdout).toMatch(/\d tokens\n$/);
  });

  test("a missing text file is named", async () => {
    const { stderr, exitCode } = await runMain("tokenize", "--model", STORIES, "--text-file", "/nowhere.txt");
    expect(stderr).toMatch(/error \[file_unreadable\]: expected a text in \/nowhere\.txt/);
    expect(exitCode).toBe(1);
  });

  const VOCABULARIES = ["llama-spm", "gpt-2", "llama-bpe", "qwen2", "phi-3"].slice(0, cases(2, 5));
  if (!hasFixture("tokenizers")) console.warn(`skipped: tokenizer vectors, for want of ${fixturesDir()}/tokenizers`);
  /** A sample of the vectors over the command line; src/text checks all of them. */
  test.skipIf(!hasFixture("tokenizers")).each(VOCABULARIES)(
    "equals llama.cpp's vectors of %s (needs fixtures/tokenizers)",
    async (vocabulary) => {
      const { readFileSync } = await import("node:fs");
      const model = fixture(`tokenizers/ggml-vocab-${vocabulary}.gguf`);
      const texts = readFileSync(`${model}.inp`, "utf8").split("\n__ggml_vocab_test__\n");
      const lines = readFileSync(`${model}.out`, "utf8").split("\n");
      const root = tempTree({});
      for (const index of [1, 17, texts.length - 1]) {
        writeFileSync(join(root, "text"), texts[index]!);
        const { stdout } = await runMain("tokenize", "--model", model, "--text-file", join(root, "text"), "--json");
        expect(JSON.parse(stdout)).toEqual(
          lines[index]!.split(" ")
            .filter((id) => id !== "")
            .map(Number),
        );
      }
    },
  );
});

describe("inspect", () => {
  test("counts parameters, bytes, and memory at a context and concurrency", async () => {
    const { stdout } = await runMain("inspect", "--model", STORIES, "--context", "100", "--concurrency", "3", "--json");
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({
      architecture: "llama",
      numShards: 1,
      tokenizer: { model: "llama", numTokens: 512 },
    });
    const { numLayers, numKvHeads, headDim, memory } = report.model;
    const bytesPerToken = numLayers * 2 * numKvHeads * headDim * 2;
    // 100 tokens take 7 blocks of 16.
    expect(memory[0]).toEqual({
      kvType: "f16",
      bytesPerToken,
      kvBytes: 3 * 112 * bytesPerToken,
      totalBytes: report.weightBytes + 3 * 112 * bytesPerToken,
    });
    expect(memory[1].kvBytes).toBe(2 * memory[0].kvBytes);
    const sum = (field: string): number =>
      report.types.reduce((total: number, share: Record<string, number>) => total + share[field]!, 0);
    expect(sum("numParameters")).toBe(report.numParameters);
    expect(sum("numTensors")).toBe(report.numTensors);
  });

  test("gives windows the blocks of a step, which the engine sizes by the number of sequences", async () => {
    const { stdout } = await runMain("inspect", "--model", fixture("hf/olmo3"), "--concurrency", "1", "--json");
    const { model } = JSON.parse(stdout);
    const bytesOfLayer = model.memory[0].bytesPerToken / 4;
    // One layer of four keeps all 256 tokens. The others keep a window of 16, a step of 128, and the block that both
    // share.
    expect(model.memory[0].kvBytes).toBe(bytesOfLayer * (256 + 3 * (16 + 128 + 16)));
  });

  test("counts weights of types with codebooks as they are in memory", async () => {
    const path = join(tempTree({}), "grids.gguf");
    writeRandomModel(path, { architecture: "llama", width: 256, ff: 512, seed: 1, type: "IQ1_M" });
    const { stdout } = await runMain("inspect", "--model", path, "--json");
    const { types, weightBytes, model } = JSON.parse(stdout);
    expect(types[0].type).toBe("IQ1_M");
    const more = (types[0].numBytes / 56) * (106 - 56);
    expect(model.memory[0].totalBytes).toBe(weightBytes + more + model.memory[0].kvBytes);
  });

  test("refuses a context beyond the model's own", async () => {
    const { stderr, exitCode } = await runMain("inspect", "--model", STORIES, "--context", "99999999");
    expect(stderr).toMatch(/expected --context of at most \d+, got 99999999/);
    expect(exitCode).toBe(2);
  });

  test("prints a table for people", async () => {
    const { stdout } = await runMain("inspect", "--model", STORIES);
    expect(stdout).toMatch(/^architecture +llama$/m);
    expect(stdout).toMatch(/^KV f16 +[\d.]+ \w+ per token$/m);
  });
});

test("cache clear prints JSON, though its parent has the flag too", async () => {
  vi.stubEnv("MILLRACE_CACHE", tempTree({}));
  expect(JSON.parse((await runMain("cache", "clear", "--json")).stdout)).toEqual({ cleared: [] });
});

describe("doctor", () => {
  test("reports the machine and exits with 0", async () => {
    const { stdout, exitCode } = await runMain("doctor", "--json");
    const report = JSON.parse(stdout);
    expect(exitCode).toBe(0);
    expect(report.node).toBe(process.versions.node);
    expect(report.cpu.numPhysical).toBeGreaterThan(0);
    expect(report.memory.totalBytes).toBeGreaterThan(0);
    expect(typeof report.kernels.isLoaded).toBe("boolean");
  });
});

test.each(["bench", "image", "config"])("%s alone prints its help and exits with 0", async (group) => {
  const { stdout, stderr, exitCode } = await runMain(group);
  expect(stdout).toMatch(new RegExp(`^Usage: millrace ${group} .*\\[command\\]`));
  expect(stdout).toContain("Commands:");
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
});

test.each([40, 60, 100])("help fits a terminal of %i columns", async (width) => {
  vi.stubEnv("COLUMNS", String(width));
  for (const args of [["--help"], ["serve", "--help"], ["generate", "--help"], ["bench", "run", "--help"]]) {
    const lines = (await runMain(...args)).stdout.split("\n");
    // Flags with a value, words and the usage line are not broken.
    const isTooLong = (line: string) => line.length > width && !/^(Usage: .*| *(-\S+ <.*>|\S+))$/.test(line);
    expect(lines.filter(isTooLong)).toEqual([]);
    expect(lines.length).toBeGreaterThan(10);
  }
});

test("help is as wide as the terminal, and 40 columns at least", () => {
  expect(helpWidth({ isTTY: true, columns: 57 }, "90")).toBe(57);
  expect(helpWidth({ isTTY: true, columns: 12 }, undefined)).toBe(40);
  expect(helpWidth({ isTTY: true, columns: 0 }, undefined)).toBe(80);
  expect(helpWidth({}, "66")).toBe(66);
  expect(helpWidth({}, undefined)).toBe(80);
});

test("help of chat and generate lists the common flags and points to the others", async () => {
  for (const command of ["chat", "generate"]) {
    const { stdout } = await runMain(command, "--help");
    expect(stdout).toContain("--temperature");
    expect(stdout).toContain("--threads");
    expect(stdout).not.toContain("--kv-layout");
    expect(stdout).toContain("millrace serve");
  }
  expect((await runMain("serve", "--help")).stdout).toContain("--kv-layout");
});
