/** docs/reference/models.md: every architecture and every kind of folder that the engine computes has its row. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ARCHITECTURES } from "../../src/model/description/architectures.js";
import { TRAITS } from "../../src/model/hf/class-traits.js";
import { repositoryRoot } from "../helpers/fixtures.js";

const text = readFileSync(join(repositoryRoot(), "docs/reference/models.md"), "utf8");
const named = new Set([...text.matchAll(/`([^`]+)`/g)].map(([, name]) => name));

test("every architecture is named", () => {
  expect(ARCHITECTURES.filter((name) => !named.has(name))).toEqual([]);
});

test("every kind of folder is named", () => {
  const kinds = Object.keys(TRAITS);
  // Text parts have the names of the kinds around them.
  expect(kinds.filter((kind) => !named.has(kind.replace(/_text$/, "")))).toEqual([]);
});
