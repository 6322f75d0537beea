/** Skipped tests as lines for the end of a run: each reason with its count and places. */

/** If the condition is in the test file, the test's name states its requirement. */
function reasonOf({ name, reason }) {
  return /\((needs [^()]+)\)/.exec(name)?.[1] ?? reason;
}

/** @param {readonly { name: string, reason: string }[]} skipped names begin with the file and a colon */
export function skippedLines(skipped) {
  const filesByReason = new Map();
  for (const test of skipped) {
    const reason = reasonOf(test);
    const files = filesByReason.get(reason) ?? new Map();
    filesByReason.set(reason, files);
    const [file] = test.name.split(": ", 1);
    files.set(file, (files.get(file) ?? 0) + 1);
  }
  const count = (files) => [...files.values()].reduce((sum, number) => sum + number, 0);
  return [...filesByReason]
    .sort(([, a], [, b]) => count(b) - count(a))
    .map(([reason, files]) => `  ${count(files)} × ${reason}: ${[...files.keys()].sort().join(", ")}`);
}
