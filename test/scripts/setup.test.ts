/** What the launcher decides before anything is built: are the packages there, is a build stale. */
import { rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "./temp-tree.js";

interface SetupScripts {
  areDependenciesCurrent(root: string): boolean;
  hashSources(root: string, paths: readonly string[], isWanted?: (path: string) => boolean, salt?: string): string;
}

async function loadScripts(): Promise<SetupScripts> {
  const load = (name: string) => import(pathToFileURL(join(repositoryRoot(), "scripts/setup", name)).href);
  return { ...(await load("dependencies.js")), ...(await load("stamp.js")) };
}

const lockOf = (version: string): string =>
  JSON.stringify({
    packages: {
      "": { name: "root" },
      "node_modules/a": { version },
      "node_modules/other-platform": { version: "1.0.0", optional: true },
    },
  });

test("packages are current when contents agree, whatever the dates", async () => {
  const { areDependenciesCurrent } = await loadScripts();
  const root = tempTree({ "package-lock.json": lockOf("1.0.0") });
  expect(areDependenciesCurrent(root)).toBe(false);
  const installed = tempTree({
    "package-lock.json": lockOf("1.0.0"),
    "node_modules/.package-lock.json": lockOf("1.0.0"),
    "node_modules/a/package.json": "{}",
  });
  utimesSync(join(installed, "node_modules/.package-lock.json"), 0, 0);
  expect(areDependenciesCurrent(installed)).toBe(true);
  writeFileSync(join(installed, "package-lock.json"), lockOf("1.0.1"));
  expect(areDependenciesCurrent(installed)).toBe(false);
  writeFileSync(join(installed, "package-lock.json"), lockOf("1.0.0"));
  rmSync(join(installed, "node_modules/a"), { recursive: true });
  expect(areDependenciesCurrent(installed)).toBe(false);
});

test("a stamp changes with a date, a size, a new or lost file and the salt; not with unwanted files", async () => {
  const { hashSources } = await loadScripts();
  const root = tempTree({ "src/a.ts": "1", "src/deep/b.ts": "2", "src/a.test.ts": "3", "config.json": "{}" });
  const isWanted = (path: string): boolean => !path.endsWith(".test.ts");
  const stamp = (salt?: string): string => hashSources(root, ["src", "config.json", "absent"], isWanted, salt);
  const seen = [stamp(), stamp("other compiler")];
  utimesSync(join(root, "src/a.ts"), 1, 1);
  seen.push(stamp());
  writeFileSync(join(root, "config.json"), "{ }");
  seen.push(stamp());
  writeFileSync(join(root, "src/deep/c.ts"), "");
  seen.push(stamp());
  rmSync(join(root, "src/deep/b.ts"));
  seen.push(stamp());
  expect(new Set(seen).size).toBe(seen.length);
  writeFileSync(join(root, "src/a.test.ts"), "changed");
  expect(stamp()).toBe(seen.at(-1));
});
