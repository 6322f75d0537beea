import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../../../test/scripts/temp-tree.js";
import { findAddon } from "./find.js";

const manifest = (version: string): string => JSON.stringify({ version });
const OWN = "node_modules/millrace/build/native/millrace.node";
const PREBUILT = "node_modules/millrace-linux-x64/millrace.node";

/** An installed package with both a build of its own and a package of prebuilt kernels. */
function installed(prebuiltVersion = "1.2.3"): string {
  return tempTree({
    "node_modules/millrace/package.json": manifest("1.2.3"),
    "node_modules/millrace-linux-x64/package.json": manifest(prebuiltVersion),
    [OWN]: "",
    [PREBUILT]: "",
  });
}

const find = (tree: string, platform = "linux-x64"): string =>
  findAddon("millrace.node", join(tree, "node_modules/millrace"), platform);

function refusal(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}

test("the package's own build comes first, then the prebuilt package for this platform", () => {
  const tree = installed();
  expect(find(tree)).toBe(join(tree, OWN));
  rmSync(join(tree, OWN));
  expect(find(tree)).toBe(join(tree, PREBUILT));
  expect(refusal(() => find(tree, "linux-arm64"))).toMatchObject({
    code: "kernels_missing",
    message: expect.stringContaining("or the package millrace-linux-arm64 1.2.3, got neither"),
    hint: expect.stringContaining("docs/guides/install.md"),
  });
});

test("a prebuilt package of another version or without its file is refused", () => {
  const other = installed("1.2.4");
  rmSync(join(other, OWN));
  const message = expect.stringContaining("millrace-linux-x64 1.2.3, got the package 1.2.4 in");
  expect(refusal(() => find(other))).toMatchObject({ code: "kernels_missing", message });
  const empty = installed();
  rmSync(join(empty, OWN));
  rmSync(join(empty, PREBUILT));
  expect(refusal(() => find(empty))).toMatchObject({ code: "kernels_missing" });
});

test("the hint is to build in a checkout, to install a compiler beside sources, and else to install compiled kernels", () => {
  const tree = tempTree({ "package.json": manifest("1.2.3"), "src/index.ts": "" });
  expect(refusal(() => findAddon("millrace.node", tree, "linux-x64"))).toMatchObject({ hint: "run `npm run build`" });
  rmSync(join(tree, "src"), { recursive: true });
  const hint = () => refusal(() => findAddon("millrace.node", tree, "linux-x64"));
  expect(hint()).toMatchObject({ hint: expect.stringMatching(/^install the package millrace-linux-x64 1\.2\.3,/) });
  mkdirSync(join(tree, "native"));
  expect(hint()).toMatchObject({ hint: expect.stringContaining("or the package millrace-linux-x64 1.2.3") });
});
