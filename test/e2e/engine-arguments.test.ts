/**
 * The arguments that plans and presets render, given to the engines' own parsers: vLLM's and SGLang's where a Python
 * has them, llama-server's where its binary is; TensorRT-LLM and TGI against the flags that they document.
 * docs/reference/engines.md says how to get them and what was found.
 */
import { execFile, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { fixture, repositoryRoot } from "../helpers/fixtures.js";
import { renderedArguments } from "../helpers/rendered-arguments.js";

const TIMEOUT_MS = 300_000;

/** What no engine may take, to know that the parser is one. */
const NONSENSE = ["--no-such-flag", "1"];

/**
 * @property refused what its parser must not take: a flag that is none, the beginning of one, words that no list of the
 * engine has
 */
const PYTHONS = {
  vllm: {
    variable: "MILLRACE_VLLM_PYTHON",
    prefix: ["serve"],
    refused: [
      ["m", ...NONSENSE],
      ["m", "--max-model", "8"],
      ["m", "--kv-cache-dtype", "q8_0"],
      ["m", "--quantization", "none-such"],
      ["m", "--speculative-config", '{"method":"none-such"}'],
      ["m", "--speculative-config", '{"draft":"m"}'],
      ["m", "--enable-auto-tool-choice"],
      ["m", "--enable-auto-tool-choice", "--tool-call-parser", "none-such"],
      ["m", "--reasoning-parser", "none-such"],
    ],
  },
  sglang: {
    variable: "MILLRACE_SGLANG_PYTHON",
    prefix: [],
    refused: [
      NONSENSE,
      ["--context-len", "8"],
      ["--kv-cache-dtype", "fp8"],
      ["--speculative-algorithm", "DRAFT"],
      ["--tool-call-parser", "none-such"],
      ["--reasoning-parser", "none-such"],
    ].map((words) => ["--model-path", "m", ...words]),
  },
} as const;

for (const [engine, { variable, prefix, refused }] of Object.entries(PYTHONS)) {
  const python = process.env[variable];
  test.skipIf(python === undefined)(
    `${engine}'s own parser accepts every argument list [${variable} names a Python that imports ${engine}]`,
    async () => {
      const rendered = renderedArguments(engine as keyof typeof PYTHONS);
      const lists = [...rendered.map(({ args }) => args), ...refused].map((args) => [...prefix, ...args]);
      const script = join(repositoryRoot(), "test/helpers/parse-engine-arguments.py");
      const ended = spawnSync(python!, [script, engine], { input: JSON.stringify(lists), encoding: "utf8" });
      expect(ended.status, ended.stderr).toBe(0);
      const { version, refusals } = JSON.parse(ended.stdout) as {
        readonly version: string;
        readonly refusals: readonly (string | null)[];
      };
      console.info(`${engine} ${version} was given ${rendered.length} argument lists`);
      const problems = rendered.flatMap(({ source }, i) => (refusals[i] === null ? [] : `${source}: ${refusals[i]}`));
      expect(problems).toEqual([]);
      expect(refusals.slice(rendered.length)).toHaveLength(refused.length);
      expect(refusals.slice(rendered.length)).not.toContain(null);
    },
    TIMEOUT_MS,
  );
}

const llamaServer = process.env.MILLRACE_LLAMA_SERVER;

test.skipIf(llamaServer === undefined)(
  "llama-server's own parser accepts every argument list [MILLRACE_LLAMA_SERVER names its binary]",
  async () => {
    const run = promisify(execFile);
    const { stdout, stderr } = await run(llamaServer!, ["--help"], { maxBuffer: 2 ** 22 });
    // It reads the words in order, and ends at this one with 0 if it has understood those before.
    const refusalOf = (args: readonly string[]) =>
      run(llamaServer!, [...args, "--version"]).then(
        () => undefined,
        (error: { readonly stderr: string }) => error.stderr.trim(),
      );
    const rendered = renderedArguments("llama-server", stdout + stderr);
    const refused: string[] = [];
    for (const { source, args } of rendered) {
      const refusal = await refusalOf(args);
      if (refusal !== undefined) refused.push(`${source}: ${refusal}`);
    }
    expect(refused).toEqual([]);
    expect(await refusalOf(NONSENSE)).toMatch(/no-such-flag/);
    expect(await refusalOf(["-c", "many"])).toBeDefined();
  },
  TIMEOUT_MS,
);

interface DocumentedFlags {
  readonly values: readonly string[];
  readonly switches: readonly string[];
  readonly choices: Readonly<Record<string, readonly string[]>>;
}
const documented = JSON.parse(readFileSync(fixture("engine-flags.json"), "utf8")) as Readonly<
  Record<"tensorrt-llm" | "tgi", DocumentedFlags>
>;

/** Why documented flags do not allow these words; undefined: they do. */
function breach(args: readonly string[], { values, switches, choices }: DocumentedFlags): string | undefined {
  for (let i = 0; i < args.length; i++) {
    const word = args[i]!;
    if (switches.includes(word)) continue;
    if (!values.includes(word)) return `no flag ${word}`;
    const value = args[++i];
    if (value === undefined || value.startsWith("--")) return `${word} without a value`;
    if (choices[word]?.includes(value) === false) return `${word} is none of its values: ${value}`;
  }
  return undefined;
}

test("the argument lists come from presets, plans and options, and each occurs once", () => {
  for (const engine of ["vllm", "sglang", "tensorrt-llm", "llama-server"] as const) {
    const rendered = renderedArguments(engine);
    const kinds = new Set(rendered.map(({ source }) => source.split(" ")[0]!.replace(/.*\.yaml$/, "preset")));
    expect([...kinds].sort()).toEqual(engine === "vllm" ? ["options", "plan", "preset"] : ["options", "plan"]);
    expect(new Set(rendered.map((each) => JSON.stringify([each.args, each.files]))).size).toBe(rendered.length);
  }
});

test("trtllm-serve documents every flag that it receives", () => {
  const rendered = renderedArguments("tensorrt-llm");
  for (const { args, files } of rendered) {
    // The model comes first.
    expect(breach(args.slice(1), documented["tensorrt-llm"])).toBeUndefined();
    const file = args[args.indexOf("--extra_llm_api_options") + 1]!;
    expect(Object.keys(parse(files![file]!))).toContain("enable_iter_perf_stats");
  }
  expect(breach(NONSENSE, documented["tensorrt-llm"])).toBe("no flag --no-such-flag");
});

test("text-generation-launcher documents every flag that it receives, and the listed values", () => {
  for (const { args } of renderedArguments("tgi")) expect(breach(args, documented.tgi)).toBeUndefined();
  expect(breach(["--kv-cache-dtype", "fp8"], documented.tgi)).toBe("--kv-cache-dtype is none of its values: fp8");
});
