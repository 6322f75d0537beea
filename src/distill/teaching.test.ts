import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { fixture } from "../../test/helpers/fixtures.js";
import { silentStages } from "../core/stages.js";
import { TOOL_TEMPLATE_NAME } from "../formats/hf/folder.js";
import { modelHash } from "./teaching.js";

test("a folder's hash is of its weights, settings and templates, that for tools too, and of nothing else", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-teaching-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  cpSync(fixture("hf/qwen2"), folder, { recursive: true });
  mkdirSync(dirname(join(folder, TOOL_TEMPLATE_NAME)));
  const hashWith = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return modelHash(folder, silentStages);
  };
  const hashes = [
    modelHash(folder, silentStages),
    hashWith("chat_template.jinja", "{{ messages }}"),
    hashWith(TOOL_TEMPLATE_NAME, "{{ tools }}"),
    hashWith(TOOL_TEMPLATE_NAME, "{{ tools | tojson }}"),
    hashWith("more.safetensors", ""),
  ];
  expect(new Set(hashes).size).toBe(5);
  expect(hashWith("journal.jsonl", "{}")).toBe(hashes.at(-1));
});
