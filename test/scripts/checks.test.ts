/** The static checks of `npm run lint`, run as scripts on small trees that keep or break each rule. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "./temp-tree.js";

const MANIFEST = JSON.stringify({ dependencies: { zod: "1" }, devDependencies: { vitest: "1" } });

function runCheck(script: string, root: string): { exitCode: number | null; stderr: string; stdout: string } {
  const path = join(repositoryRoot(), "scripts", script);
  const { status, stderr, stdout } = spawnSync(process.execPath, [path, root], { encoding: "utf8" });
  // The compiler's own process says so, at times, when the script ends it (scripts/syntax.js).
  return { exitCode: status, stderr: stderr.replace(/^context canceled\n/m, ""), stdout };
}

describe("check-layers", () => {
  const CASES: readonly [string, Record<string, string>, RegExp | undefined][] = [
    [
      "a lower layer",
      { "src/engine/a.ts": 'import { b } from "../backend/b.js";\n', "src/backend/b.ts": "" },
      undefined,
    ],
    [
      "an upper layer",
      { "src/core/a.ts": 'import { b } from "../serve/b.js";\n' },
      /src\/core\/a\.ts.*no other layer; not serve/,
    ],
    [
      "a type of an upper layer",
      { "src/text/a.ts": 'import type {\n  B,\n} from "../engine/b.js";' },
      /text may import/,
    ],
    ["a lazy import", { "src/fleet/a.ts": 'const b = await import("../engine/b.js");' }, /fleet may import core, text/],
    ["a worker", { "src/fleet/a.ts": 'new Worker(new URL("../engine/w.js", import.meta.url))' }, /not engine/],
    [
      "a comment",
      { "src/core/a.ts": '// import x from "../cli/a.js"\n/* import y from "../cli/b.js" */\n' },
      undefined,
    ],
    ["models importing src", { "models/corpus/a.ts": 'import "../../src/core/a.js";' }, /models imports nothing/],
    [
      "a test importing test helpers",
      { "src/core/a.test.ts": 'import { h } from "../../test/helpers/h.js";' },
      undefined,
    ],
    [
      "a program importing test helpers",
      { "src/core/a.ts": 'import { h } from "../../test/helpers/h.js";' },
      /not test/,
    ],
    [
      "the CPU's backend in the engine",
      { "src/engine/a.ts": 'import { b } from "../backend/cpu/b.js";\n', "src/backend/cpu/b.ts": "" },
      /only src\/backend\/create\/create-backend\.ts/,
    ],
    [
      "the CPU's backend where it is chosen",
      { "src/backend/create/create-backend.ts": 'import { b } from "../cpu/b.js";\n', "src/backend/cpu/b.ts": "" },
      undefined,
    ],
    [
      "folders that import each other without a cycle of files",
      {
        "src/engine/a.ts": 'import { b } from "./memory/b.js";\n',
        "src/engine/memory/b.ts": "",
        "src/engine/memory/c.ts": 'import { d } from "../d.js";\n',
        "src/engine/d.ts": "",
      },
      /folders import each other: src\/engine → src\/engine\/memory → src\/engine \(src\/engine\/a\.ts imports/,
    ],
    [
      "a test that uses the room above its own",
      {
        "src/engine/a.ts": 'import { b } from "./memory/b.js";\n',
        "src/engine/memory/b.ts": "",
        "src/engine/memory/b.test.ts": 'import { d } from "../d.js";\n',
        "src/engine/d.ts": "",
      },
      undefined,
    ],
    ["an unknown layer", { "src/misc/a.ts": 'import "../core/a.js";' }, /misc is no known layer/],
    ["a declared package", { "src/core/a.ts": 'import { z } from "zod/v4";' }, undefined],
    ["an undeclared package", { "src/core/a.ts": 'import { z } from "@left/pad/deep";' }, /package @left\/pad is not/],
    ["a development package in a program", { "src/core/a.ts": 'import "vitest";' }, /package vitest/],
    ["a development package in a test", { "src/core/a.test.ts": 'import "vitest";' }, undefined],
    ["a builtin without node:", { "src/core/a.ts": 'import fs from "fs";' }, /write node:fs/],
    [
      "a cycle",
      {
        "src/core/a.ts": 'import "./b.js";',
        "src/core/b.ts": 'export { c } from "./c.js";',
        "src/core/c.ts": 'import type { A } from "./a.js";',
      },
      /import cycle: src\/core\/a\.ts → src\/core\/b\.ts → src\/core\/c\.ts → src\/core\/a\.ts/,
    ],
  ];

  test.each(CASES)("%s", (_name, files, expected) => {
    const { exitCode, stderr } = runCheck("check-layers.js", tempTree({ "package.json": MANIFEST, ...files }));
    expect(stderr).toMatch(expected ?? /^$/);
    expect(exitCode).toBe(expected === undefined ? 0 : 1);
  });
});

describe("check-syntax", () => {
  const CASES: readonly [string, Record<string, string>, RegExp | undefined][] = [
    [
      "a spread object literal",
      { "src/a.ts": "f({\n  ...{ b: 1, c: 2 },\n});\n" },
      /^src\/a\.ts:2: .*got a spread literal/,
    ],
    ["a spread array literal", { "test/a.ts": "f([...[1, 2], 3]);\n" }, /^test\/a\.ts:1: /],
    ["spread arguments", { "scripts/a.js": "f(...[1, 2]);\n" }, /^scripts\/a\.js:1: /],
    [
      "one in parentheses and assertions",
      { "models/a.ts": "f(...(([1, 2] satisfies B) as const));\n" },
      /^models\/a\.ts:1: /,
    ],
    ["one within another expression", { "src/a.ts": "const a = () => [{ b: { ...{ c: 1 } } }];\n" }, /^src\/a\.ts:1: /],
    [
      "what is spread by its name, on a condition or from a call",
      { "src/a.ts": "f({ ...a, ...(b ? { c: 1 } : {}), ...(d && { d }) }, [...[1, 2].map(g), ...e], ...h);\n" },
      undefined,
    ],
    [
      "a comment that could be wrapped",
      { "src/a.ts": `/**\n * ${"word ".repeat(24)}\n */\n`, "native/cpu/a.cc": `// ${"word ".repeat(30)}\n` },
      /^src\/a\.ts:2: expected a comment of at most 120 columns, got 123; wrap it\nnative\/cpu\/a\.cc:1: /,
    ],
    [
      "a long word, a table and a command in comments",
      { "src/a.ts": `// ${"a".repeat(130)}\n/**\n *   node a.js ${"[--b C] ".repeat(20)}\n */\n` },
      undefined,
    ],
    [
      "an export that no file imports",
      { "src/a.ts": "\nexport const a = 1;\nconst b = a;\n" },
      /^src\/a\.ts:2: expected another file to import "a"/,
    ],
    ["a type that no file imports", { "src/a.ts": "export interface A {}\n" }, /import "A"/],
    [
      "one of two exports",
      { "src/a.ts": "export const { a, b: [c] } = d;\n", "src/b.ts": 'import { a } from "./a.js";\n' },
      /^[^\n]*import "c"[^\n]*\n$/,
    ],
    [
      "a name of another file's",
      { "src/a.ts": "export class A {}\n", "src/b.ts": 'import { A } from "./c.js";\n', "src/c.ts": "" },
      /import "A"/,
    ],
    [
      "a name that is passed on to no file",
      { "src/a.ts": "export const a = 1;\n", "src/b.ts": 'export { a as b } from "./a.js";\n' },
      /^src\/b\.ts:1: [^\n]*import "b"[^\n]*\n$/,
    ],
    [
      "imports of a test, a type, a whole file, the built file and at run time",
      {
        "src/a.ts": "export const a = 1, b = 2;\nexport type C = 1;\nexport function d() {}\n",
        "src/a.test.ts": 'import { a, type C } from "./a.js";\nconst { b } = await import("./e.js");\n',
        "src/e.ts": "export const b = 1;\n",
        "src/f.ts": "export const f = 1;\n",
        "test/helpers/g.ts": 'import { b as h } from "../../src/a.js";\nimport * as f from "../../src/f.js";\n',
        "bin/a.js": 'import { d } from "../dist/src/a.js";\nexport const unasked = 1;\n',
        "src/i.ts": "export interface I {}\n",
        "src/j.ts": 'type J = import("./i.js").I;\n',
      },
      undefined,
    ],
    ["code in strings and comments", { "src/a.ts": "// f(...[1])\nconst a = 'f(...[1])';\n" }, undefined],
  ];

  test.each(CASES)("%s", (_name, files, expected) => {
    const { exitCode, stderr } = runCheck("check-syntax.js", tempTree(files));
    expect(stderr).toMatch(expected ?? /^$/);
    expect(exitCode).toBe(expected === undefined ? 0 : 1);
  });
});

describe("size-budget", () => {
  const statements = (count: number): string => "x();\n".repeat(count);
  const CASES: readonly [string, Record<string, string>, RegExp | undefined][] = [
    ["450 statements", { "src/a.ts": statements(450) }, undefined],
    ["451 statements without a reason", { "src/a.ts": statements(451) }, /src\/a\.ts: 451 statements/],
    ["451 statements on one line", { "src/a.ts": statements(451).replaceAll("\n", "") }, /src\/a\.ts: 451 statements/],
    ["451 statements with a reason", { "native/a.cc": `// size: one table\n${statements(451)}` }, undefined],
    ["550 statements with a reason", { "test/a.ts": `// size: one table\n${statements(550)}` }, undefined],
    [
      "551 statements even with a reason",
      { "test/a.ts": `// size: one table\n${statements(551)}` },
      /at most 550 statements, got 551/,
    ],
    [
      "551 statements that a script writes",
      { "native/a.h": `// Written by scripts/a.js.\n// size: a table\n${statements(551)}` },
      undefined,
    ],
    [
      "members: of a class, a type and an object literal",
      {
        "src/a.ts": [
          "class A { a = 1; b() { return 1; } get c() { return 2; } }", // 1 + 3 members + 2 statements
          "type B = { a: 1; b(): 2; [c: string]: unknown };", // 1 + 3
          "f({ a: 1, b, ...c, d() {} });", // 1 + 4
          statements(436),
        ].join("\n"),
      },
      /src\/a\.ts: 451 statements/,
    ],
    [
      "comments, blank lines and strings",
      { "src/a.ts": `${"// a;\n\n".repeat(600)}f("${"a; ".repeat(600)}");` },
      undefined,
    ],
    [
      "C++: statements and blocks",
      { "native/a.cc": `/* a; */ // b;\nchar c = ';'; auto s = ";\\";{"; int main() { ${"x();".repeat(448)} }` },
      /native\/a\.cc: 451 statements/,
    ],
    ["Python: lines that hold something", { "models/a.py": "a()\n\n".repeat(451) }, /models\/a\.py: 451 statements/],
    ["data files", { "src/a.json": "1\n".repeat(5000) }, undefined],
    [
      "the total, without tests",
      Object.fromEntries(
        Array.from({ length: 320 }, (_, i) => [
          [`src/f${i}.ts`, statements(449)],
          [`src/f${i}.test.ts`, statements(449)],
        ]).flat(),
      ),
      /src and native: expected at most \d+ statements, got 143680/,
    ],
  ];

  test.each(CASES)("%s", (_name, files, expected) => {
    const { exitCode, stderr } = runCheck("size-budget.js", tempTree(files));
    expect(stderr).toMatch(expected ?? /^$/);
    expect(exitCode).toBe(expected === undefined ? 0 : 1);
  });
});

describe("size-budget of tracked files", () => {
  const large = "x".repeat(2 ** 21 + 1);

  test("a large file outside models/ that Git tracks", () => {
    const root = tempTree({ "a.whl": large, "b.bin": large.slice(1), "models/c.gguf": large, "untracked.bin": large });
    spawnSync("git", ["init", "-q"], { cwd: root });
    spawnSync("git", ["add", "a.whl", "b.bin", "models"], { cwd: root });
    const { exitCode, stderr } = runCheck("size-budget.js", root);
    expect(stderr).toBe("a.whl: expected at most 2097152 bytes outside models/, got 2097153\n");
    expect(exitCode).toBe(1);
  });
});

describe("check-docs", () => {
  const long = `${"word ".repeat(20)}end`;
  const CASES: readonly [string, Record<string, string>, RegExp | undefined][] = [
    ["a short line", { "README.md": "# A\n\nA short line.\n" }, undefined],
    [
      "a line of 103 columns",
      { "docs/a/b.md": `# A\n\n${long}\n` },
      /docs\/a\/b\.md:3: .*at most 100 columns, got 103/,
    ],
    ["a long item of a list", { "CHANGELOG.md": `- ${long}\n` }, /CHANGELOG\.md:1: /],
    [
      "long code, a long table and a long heading",
      { "README.md": `\`\`\`sh\n${long}\n\`\`\`\n\n| ${long} |\n\n# ${long}\n` },
      undefined,
    ],
    ["a line after code", { "README.md": `\`\`\`sh\n\`\`\`\n${long}\n` }, /README\.md:3: /],
    ["a long link by itself", { "README.md": `- [${long}](https://example.org/a)\n` }, undefined],
    ["a long link behind words", { "README.md": `see [${long}](https://example.org/a)\n` }, /README\.md:1: .*columns/],
    [
      "links to files, folders, headings and other sites",
      {
        "README.md": "[a](docs/a.md#two-words) [b](docs) [c](#top-1) [d](https://example.org/none)\n# Top\n# Top\n",
        "docs/a.md": "# A\n## Two *words*\n[up](../README.md#top)\n",
      },
      undefined,
    ],
    ["a link to nowhere", { "docs/a.md": "\n[b](b.md)\n" }, /docs\/a\.md:2: expected a file at docs\/b\.md/],
    ["a picture that is not there", { "README.md": "![b](b.png)\n" }, /README\.md:1: expected a file at b\.png/],
    ["a heading that is not there", { "README.md": "[b](#b)\n# A\n" }, /expected a heading "b" in README\.md/],
    ["a heading within code", { "README.md": "[b](#b)\n```sh\n# b\n```\n" }, /expected a heading "b"/],
    [
      "a page that no other page links to",
      { "docs/README.md": "[a](a.md)\n", "docs/a.md": "# A\n", "docs/b.md": "[itself](b.md)\n" },
      /^docs\/b\.md: expected a link to it from another page, such as docs\/README\.md\n$/,
    ],
    ["what looks like a link in code", { "README.md": "`[a](b)`\n```md\n[a](b)\n```\n" }, undefined],
  ];

  test.each(CASES)("%s", (_name, files, expected) => {
    const { exitCode, stderr } = runCheck("check-docs.js", tempTree(files));
    expect(stderr).toMatch(expected ?? /^$/);
    expect(exitCode).toBe(expected === undefined ? 0 : 1);
  });

  test("this repository", () => {
    expect(runCheck("check-docs.js", repositoryRoot())).toMatchObject({ exitCode: 0, stderr: "" });
  });
});
