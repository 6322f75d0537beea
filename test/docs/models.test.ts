/** docs/reference/models.md: every architecture and every kind of folder that the engine computes has its row. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ARCHITECTURES } from "../../src/model/description/architectures.js";
import { fixture, repositoryRoot } from "../helpers/fixtures.js";
import { MODEL_FOLDERS } from "../helpers/hf-models.js";

const text = readFileSync(join(repositoryRoot(), "docs/reference/models.md"), "utf8");
const named = new Set([...text.matchAll(/`([^`]+)`/g)].map(([, name]) => name));

test("every architecture is named", () => {
  expect(ARCHITECTURES.filter((name) => !named.has(name))).toEqual([]);
});

test("every kind of folder is named", () => {
  const kinds = MODEL_FOLDERS.map((folder) => {
    const config = JSON.parse(readFileSync(join(fixture(`hf/${folder}`), "config.json"), "utf8"));
    return config.model_type as string;
  });
  // The text parts of kinds whose own names stand in the table.
  expect(kinds.filter((kind) => !named.has(kind.replace(/_text$/, "")))).toEqual([]);
});
