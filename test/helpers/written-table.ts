/** A table of a dated page that a test makes: written with UPDATE_DOCS=1, and else left as it was measured. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "./fixtures.js";

/** @param place the table stands between `<!-- place -->` and `<!-- /place -->` */
export function writeTable(page: string, place: string, rows: readonly (readonly string[])[]): void {
  if (process.env.UPDATE_DOCS !== "1") return;
  const path = join(repositoryRoot(), page);
  const [header, ...body] = rows.map((row) => `| ${row.join(" | ")} |`);
  const table = [header, `| ${rows[0]!.map(() => "---").join(" | ")} |`, ...body].join("\n");
  const text = readFileSync(path, "utf8");
  const written = text.replace(
    new RegExp(`<!-- ${place} -->[\\s\\S]*<!-- /${place} -->`),
    () => `<!-- ${place} -->\n\n${table}\n\n<!-- /${place} -->`,
  );
  writeFileSync(path, written);
}
