/** What scripts/write-op-table.js writes from the table of operations is checked in as it is written. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import * as table from "../../src/backend/ops.js";
import { repositoryRoot } from "../helpers/fixtures.js";

const { renderAll, renderHeader, renderDocument } = (await import("../../scripts/write-op-table.js" as string)) as {
  renderAll: () => Promise<readonly (readonly [path: string, content: string])[]>;
  renderHeader: (of: typeof table) => string;
  renderDocument: (of: typeof table) => string;
};

test("the kernels' header and the page of operations are what the table says", async () => {
  const files = await renderAll();
  expect(files.map(([path]) => path)).toEqual(["native/cpu/kernels/op_table.h", "docs/reference/operations.md"]);
  for (const [path, content] of files) {
    expect(readFileSync(join(repositoryRoot(), path), "utf8"), `${path}: run node scripts/write-op-table.js`).toBe(
      content,
    );
  }
});

test("an operand that is added, renamed or written changes the header and the page", () => {
  const { add } = table.OPS;
  const changed = (operands: Readonly<Record<string, table.OperandSpec>>) =>
    ({ ...table, OPS: { ...table.OPS, add: { ...add, operands } } }) as unknown as typeof table;
  const { out, x, ...rest } = add.operands;
  for (const operands of [
    { ...add.operands, eps: { kind: "number" } },
    { out, addend: x, ...rest },
    { out, x: out, ...rest },
  ] as const) {
    expect(renderHeader(changed(operands))).not.toBe(renderHeader(table));
    expect(renderDocument(changed(operands))).not.toBe(renderDocument(table));
  }
});
