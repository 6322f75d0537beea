import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../core/package-root.js";
import { INERT_FIELDS } from "./fields.js";
import { samplingShape, termsShape } from "./schema-parts.js";

const page = readFileSync(join(packageRoot(), "docs/http-api.md"), "utf8");

test.each([
  ...INERT_FIELDS,
  ...Object.keys(samplingShape),
  ...Object.keys(termsShape),
])("docs/http-api.md names %s", (field) => {
  expect(page).toContain(`\`${field}\``);
});
