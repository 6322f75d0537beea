/** What tells models apart whose answers may differ. */
import { copyFileSync, cpSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { silentStages } from "../../src/core/stages.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { TOOL_TEMPLATE_NAME } from "../../src/formats/hf/folder.js";
import { bundledModelPath } from "../../src/formats/locate-model.js";
import type { EvalSettings } from "../../src/lab/eval-target.js";
import { fixture, repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "../scripts/temp-tree.js";

/** The compiled one: the engine starts a thread from a file. */
const COMPILED = join(repositoryRoot(), "dist/src/lab/eval-target.js");
const { openEvalTarget } = (await import(COMPILED)) as typeof import("../../src/lab/eval-target.js");

const ENGINE = { ...DEFAULT_ENGINE_OPTIONS, numThreads: 1, maxModelLen: 256, maxNumSeqs: 1 };
const SETTINGS: EvalSettings = { temperature: 0, maxTokens: 8, seed: 1, concurrency: 1, engine: ENGINE };

async function identityOf(model: string, settings: Partial<EvalSettings> = {}): Promise<string> {
  const source = { kind: "local", model } as const;
  const target = await openEvalTarget(source, { ...SETTINGS, ...settings }, silentStages, new AbortController().signal);
  await target.close();
  return JSON.stringify(target.identity);
}

test("the file, the template, and options that change answers are told apart; speed is not", async () => {
  const root = tempTree({ "chat.jinja": "{{ messages[0].content }}" });
  const path = join(root, "model.gguf");
  copyFileSync(bundledModelPath("mill-student"), path);
  const first = await identityOf(path);
  expect(await identityOf(path, { engine: { ...ENGINE, numThreads: 2, maxNumSeqs: 2 } })).toBe(first);
  const others = [
    await identityOf(path, { chatTemplate: join(root, "chat.jinja") }),
    await identityOf(path, { engine: { ...ENGINE, kvCacheDtype: "int8" } }),
    await identityOf(path, { engine: { ...ENGINE, kvEviction: { policy: "window", budget: { tokens: 64 } } } }),
    await identityOf(path, { engine: { ...ENGINE, activationDtype: "f32" } }),
    await identityOf(path, { engine: { ...ENGINE, maxModelLen: 128 } }),
  ];
  utimesSync(path, 1, 1);
  others.push(await identityOf(path));
  expect(new Set([first, ...others]).size).toBe(7);
}, 60_000);

test("of a folder, settings and vocabularies count beside the weights, and nothing else does", async () => {
  const folder = tempTree({});
  for (const part of ["hf/qwen2", "hf-tokenizers/qwen2"]) cpSync(fixture(part), folder, { recursive: true });
  const first = await identityOf(folder);
  writeFileSync(join(folder, "journal.jsonl"), "");
  symlinkSync("nowhere", join(folder, "old.json"));
  const withLink = await identityOf(folder);
  expect(JSON.parse(withLink).files.length).toBe(JSON.parse(first).files.length + 1);
  const others: string[] = [];
  for (const name of ["config.json", "tokenizer.json", "model.safetensors"]) {
    utimesSync(join(folder, name), 1, 1);
    others.push(await identityOf(folder));
  }
  // A template for tools is read beside another one alone.
  writeFileSync(join(folder, "chat_template.jinja"), "{{ messages[0].content }}");
  others.push(await identityOf(folder));
  const forTools = join(folder, TOOL_TEMPLATE_NAME);
  mkdirSync(dirname(forTools));
  for (const text of ["{{ tools }}", "{{ tools | tojson }}"]) {
    writeFileSync(forTools, text);
    others.push(await identityOf(folder));
  }
  utimesSync(forTools, 1, 1);
  others.push(await identityOf(folder));
  expect(new Set([first, withLink, ...others]).size).toBe(9);
}, 60_000);
