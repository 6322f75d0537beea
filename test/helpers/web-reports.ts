/** Reports for the page of reports: two that can be compared, and the page of one, with a script that must not run. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** As far as the list of reports reads it. */
const benchJson = (outputTokensPerS: number): string =>
  JSON.stringify({
    format: "millrace-bench",
    runs: [{ target: "ours", cell: "chat", voidReasons: [], metrics: { outputTokensPerS } }],
  });

export function writeReports(folder: string): void {
  mkdirSync(folder);
  const script = "<script>document.title = 'ran'</script>";
  writeFileSync(join(folder, "before.json"), benchJson(10));
  writeFileSync(join(folder, "after.json"), benchJson(20));
  writeFileSync(join(folder, "after.html"), `<style>p { color: red }</style><p>Kept ${script}</p>`);
}
