/**
 * Shell blocks of the documentation: found, told apart by why they are not run, and turned into the commands of ours in
 * them.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repositoryRoot } from "../helpers/fixtures.js";

/**
 * Why a block is not run: the network, privileges or hardware it needs, the time it takes, or a program that is not
 * ours.
 */
export const REASONS = ["hub", "root", "gpu", "long", "another-program"] as const;

export interface ShellBlock {
  readonly page: string;
  /** Of the first command, from 1. */
  readonly line: number;
  readonly text: string;
  /** What stands behind `sh`; undefined: the block is run. */
  readonly reason: string | undefined;
}

export function blocksOf(page: string): ShellBlock[] {
  const blocks: ShellBlock[] = [];
  let open: { readonly line: number; readonly reason: string | undefined; readonly lines: string[] } | undefined;
  for (const [i, line] of readFileSync(join(repositoryRoot(), page), "utf8").split("\n").entries()) {
    if (open === undefined) {
      const opened = /^```(?:sh|bash|shell|console)\b ?(.*)$/.exec(line);
      if (opened !== null) open = { line: i + 2, reason: opened[1] || undefined, lines: [] };
    } else if (line === "```") {
      blocks.push({ page, line: open.line, reason: open.reason, text: open.lines.join("\n") });
      open = undefined;
    } else open.lines.push(line);
  }
  return blocks;
}

/** Pages whose examples are run. */
export const examplePages = (): string[] => [
  "README.md",
  "CONTRIBUTING.md",
  "docs/reference/http-api.md",
  ...readdirSync(join(repositoryRoot(), "docs/guides"))
    .sort()
    .map((name) => `docs/guides/${name}`),
];

/** All pages, in the order of their paths. */
export const allPages = (): string[] => [
  "CONTRIBUTING.md",
  "README.md",
  "SECURITY.md",
  "models/README.md",
  ...readdirSync(join(repositoryRoot(), "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => `docs/${name}`),
];

// Nothing but our own commands is known to this shell, and those only note their arguments.
const NOTING = `
command_not_found_handle() { return 0; }
millrace() { local all="" each; for each; do all+="$each"$'\\x1f'; done; printf '%s\\x1e' "$all" >&3; }
npx() { [ "$1" = millrace ] && shift && millrace "$@"; }
npm() {
  while [[ "$1" == -* ]]; do shift; done
  case "$1 $2" in
    start*) shift; [ "$1" = -- ] && shift; millrace "$@" ;;
    "run bench:"*) set -- bench "\${2#run bench:}" "\${@:3}"; [ "$3" = -- ] && set -- "$1" "$2" "\${@:4}"; millrace "$1" "\${2#bench:}" "\${@:3}" ;;
  esac
}
PATH=/nowhere
`;

/** The arguments of each of our commands in a text of shell, as bash reads it. */
export function commandsIn(text: string): string[][] {
  const folder = mkdtempSync(join(tmpdir(), "millrace-docs-"));
  try {
    const noted = execFileSync("bash", ["-c", `exec 3>&1 >/dev/null 2>&1\n${NOTING}\n${text}\ntrue`], {
      cwd: folder,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
      timeout: 10_000,
    });
    return noted
      .split("\x1e")
      .slice(0, -1)
      .map((command) => command.split("\x1f").slice(0, -1));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Commands of ours that stand in the text, as code within a line; a page may leave out what each of them needs. */
export function inlineCommandsOf(page: string): string[] {
  const text = readFileSync(join(repositoryRoot(), page), "utf8").replace(/^```[\s\S]*?^```/gm, "");
  const commands = [...text.matchAll(/`((?:millrace|npm start --) [^`]+)`/g)].map(([, command]) => command!);
  // A dot dot dot stands for arguments, and brackets for those of a usage line.
  return commands.map((command) => command.replace(/\s+/g, " ")).filter((command) => !/…|\[options\]/.test(command));
}
