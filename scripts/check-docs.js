/**
 * Fails if documentation has a line of prose over 100 columns, a link to a missing file or heading, or a page to which
 * no other page links. Tables, code and headings may be wider, and so may a line of one long word, such as a link.
 *
 *   node scripts/check-docs.js [root]
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { listFiles } from "./setup/stamp.js";

const COLUMNS = 100;

/** The page that lists the others. */
const INDEX = "docs/README.md";

const TOP_FILES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "models/README.md"];

/** The marker of a list item or a quotation, before its first word. */
const MARKER = /^\s*(?:(?:[-*>]|\d+\.)\s+)*/;

export const documentsOf = (root) => [
  ...TOP_FILES.filter((file) => existsSync(join(root, file))),
  ...listFiles(root, "docs", (path) => path.endsWith(".md")),
];

/** @returns the lines, with those in code blocks empty, so that line numbers stay */
function withoutCode(text) {
  let fence;
  return text.split("\n").map((line) => {
    const opened = /^\s*(```+|~~~+)/.exec(line)?.[1];
    if (fence === undefined && opened === undefined) return line;
    if (fence === undefined) fence = opened;
    else if (opened === fence && line.trim() === fence) fence = undefined;
    return "";
  });
}

/** Whether an overlong line could be broken: it has a blank between words, outside links and code. */
function isTooLong(line) {
  if ([...line].length <= COLUMNS || /^\s*\|/.test(line) || /^#+ /.test(line)) return false;
  const words = line
    .replace(MARKER, "")
    .replace(/!?\[[^\]]*\]\([^)]*\)|`[^`]*`/g, "word")
    .trim();
  return words.includes(" ");
}

/**
 * GitHub's anchor of a heading: lower case, without punctuation, with hyphens for blanks; repeated ones are numbered.
 */
export function anchorsOf(text) {
  const seen = new Map();
  return withoutCode(text)
    .filter((line) => /^#+ /.test(line))
    .map((line) => {
      const words = line.replace(/^#+ /, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
      const name = words
        .trim()
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, "")
        .replace(/\s/g, "-");
      const times = seen.get(name) ?? 0;
      seen.set(name, times + 1);
      return times === 0 ? name : `${name}-${times}`;
    });
}

/** @returns targets of links and pictures with their lines, except those on other sites */
function linksOf(text) {
  return withoutCode(text).flatMap((line, i) =>
    [...line.replace(/`[^`]*`/g, (code) => code.replace(/[[\]()]/g, "_")).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target]) => ({ line: i + 1, target }))
      .filter(({ target }) => !/^[a-z]+:/.test(target)),
  );
}

/** @returns {string[]} lines of the form "file:line: problem" */
export function checkDocuments(root) {
  const problems = [];
  const linkedPages = new Set();
  const read = (file) => readFileSync(join(root, file), "utf8");
  for (const file of documentsOf(root)) {
    const text = read(file);
    for (const [i, line] of withoutCode(text).entries()) {
      if (isTooLong(line))
        problems.push(`${file}:${i + 1}: expected at most ${COLUMNS} columns, got ${[...line].length}`);
    }
    for (const { line, target } of linksOf(text)) {
      const [path, anchor] = target.split("#");
      const linked = path === "" ? file : posix.join(dirname(file), path);
      if (linked !== file) linkedPages.add(linked);
      if (!existsSync(join(root, linked))) problems.push(`${file}:${line}: expected a file at ${linked}, got none`);
      else if (anchor !== undefined && linked.endsWith(".md") && !anchorsOf(read(linked)).includes(anchor))
        problems.push(`${file}:${line}: expected a heading "${anchor}" in ${linked}, got none`);
    }
  }
  if (!existsSync(join(root, INDEX))) return problems;
  const orphans = documentsOf(root).filter((page) => /^docs\//.test(page) && page !== INDEX && !linkedPages.has(page));
  return [...problems, ...orphans.map((page) => `${page}: expected a link to it from another page, such as ${INDEX}`)];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = checkDocuments(process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url)));
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  process.stdout.write(problems.length === 0 ? "docs: links lead somewhere\n" : `docs: ${problems.length} problems\n`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
