/** docs/background/architecture.md and its pages name files that exist, and the layers that lint holds. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";

const root = repositoryRoot();
const place = join(root, "docs/background");
const files = ["architecture.md", ...readdirSync(join(place, "architecture")).map((page) => `architecture/${page}`)];
const text = files.map((file) => readFileSync(join(place, file), "utf8")).join("\n");

test("every file and folder that they name is there", () => {
  const paths = [...text.matchAll(/`((?:src|native|test|scripts|bin|models)\/[\w./-]+)`/g)].map(([, path]) => path!);
  expect(paths.length).toBeGreaterThan(200);
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

test("the table of layers is that of scripts/check-layers.js", () => {
  const rules = /const ALLOWED = \{([\s\S]*?)\n\};/.exec(
    readFileSync(join(root, "scripts/check-layers.js"), "utf8"),
  )![1]!;
  const allowed = [...rules.matchAll(/^ {2}(\w+): \[([^\]]*)\]/gm)].map(
    ([, layer, names]) => [layer!, [...names!.matchAll(/"(\w+)"/g)].map(([, name]) => name!).sort()] as const,
  );
  expect(allowed.length).toBeGreaterThan(10);
  const documented = [...text.matchAll(/^\| `src\/(\w+)` \| [^|]* \| ([^|]*) \|$/gm)].map(
    ([, layer, names]) => [layer!, names === "nothing of ours" ? [] : names!.split(", ").sort()] as const,
  );
  expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(allowed));
});
