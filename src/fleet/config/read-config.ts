/** Reads millrace.yaml: returns the checked configuration, or all its mistakes. */
import { LineCounter, parseDocument, type YAMLError } from "yaml";
import { MillraceError } from "../../core/errors.js";
import { gotOf, readRegular } from "../../core/read-text.js";
import { conflictsIn } from "./conflicts.js";
import { missingFiles } from "./missing-files.js";
import { type ConfigProblem, type ConfigSource, findingsOf, placed } from "./problems.js";
import { configSchema, type FleetConfig } from "./schema.js";

export type CheckedConfig =
  | { readonly config: FleetConfig; readonly problems: readonly []; readonly warnings: readonly ConfigProblem[] }
  | {
      readonly config: undefined;
      readonly problems: readonly [ConfigProblem, ...ConfigProblem[]];
      readonly warnings: readonly [];
    };

/** Far more than any real configuration; bounds the work of the parser. */
const MAX_FILE_CHARACTERS = 1 << 20;

const SYNTAX: Readonly<Record<string, string>> = {
  BAD_ALIAS: "aliases only after their anchors",
  BAD_INDENT: "the keys of a mapping in one column",
  DUPLICATE_KEY: "each key once",
  MISSING_CHAR: "every bracket, quote and colon",
  MULTIPLE_DOCS: "one document",
  TAB_AS_INDENT: "spaces before keys, no tabs",
  TAG_RESOLVE_FAILED: "no tags of other programs",
};

/** The message is our own, since the parser's may quote the file and thus a secret. */
function syntaxProblem(error: YAMLError, lines: LineCounter): ConfigProblem {
  const { line, col } = lines.linePos(error.pos[0]);
  // The parser reports an unclosed bracket as a wrong indentation of its last line.
  const isBracket = error.code === "BAD_INDENT" && error.message.startsWith("Flow ");
  const message = isBracket
    ? "expected every [ and { to be closed, and its lines to be indented, got an open one"
    : `expected ${SYNTAX[error.code] ?? "valid YAML"}, got ${error.code.toLowerCase().replaceAll("_", " ")}`;
  return {
    code: "config_syntax",
    line: Math.max(1, line),
    column: Math.max(1, col),
    path: "",
    message,
    hint: "check this line and the one above",
  };
}

function wholeFile(message: string, hint: string): CheckedConfig {
  return {
    config: undefined,
    problems: [{ code: "config_syntax", line: 1, column: 1, path: "", message, hint }],
    warnings: [],
  };
}

function failed(problems: readonly ConfigProblem[]): CheckedConfig {
  // A misspelt key comes first, since it often explains why another key is missing.
  const rank = ({ code }: ConfigProblem): number => (code === "config_unknown_key" ? 0 : 1);
  const inOrder = problems.toSorted((a, b) => a.line - b.line || rank(a) - rank(b) || a.column - b.column);
  const [first, ...rest] = inOrder;
  if (first === undefined) throw new MillraceError("internal_error", "expected a problem, got none");
  return { config: undefined, problems: [first, ...rest], warnings: [] };
}

/**
 * An environment for checks without the values of `env:NAME`: every variable has its own value, which is valid both as
 * a
 * key and as a URL.
 */
export const ANY_ENVIRONMENT: NodeJS.ProcessEnv = new Proxy(
  {},
  { get: (_, name) => `https://value-of.example/${Buffer.from(String(name)).toString("hex")}` },
);

/**
 * @param environment variables for `env:NAME`
 * @param exists whether a file exists, to warn of missing ones
 */
export function checkConfig(
  text: string,
  environment: NodeJS.ProcessEnv,
  exists: (path: string) => boolean = () => true,
): CheckedConfig {
  if (text.length > MAX_FILE_CHARACTERS) {
    return wholeFile(
      `expected a file of at most ${MAX_FILE_CHARACTERS} characters, got ${text.length}`,
      "check that this is the right file",
    );
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: "silent" });
  const complaints = [...document.errors, ...document.warnings];
  if (complaints.length > 0) return failed(complaints.map((each) => syntaxProblem(each, lines)));
  const source: ConfigSource = { document, lines };
  let root: unknown;
  try {
    root = document.toJS({ maxAliasCount: 100 });
  } catch {
    return wholeFile(
      "expected at most a hundred uses of anchors, none inside itself, got more",
      "write the values out instead",
    );
  }
  const parsed = configSchema(environment).safeParse(root ?? {});
  if (!parsed.success) {
    return failed(parsed.error.issues.flatMap((issue) => findingsOf(issue, root)).map((each) => placed(each, source)));
  }
  const conflicts = conflictsIn(parsed.data);
  if (conflicts.length > 0) return failed(conflicts.map((each) => placed(each, source)));
  const warnings = missingFiles(parsed.data, exists).map((each) => placed(each, source));
  return { config: parsed.data, problems: [], warnings };
}

/** @example formatProblem("millrace.yaml", problem) // "millrace.yaml:3:3: expected …" */
export function formatProblem(file: string, { line, column, message }: ConfigProblem): string {
  return `${file}:${line}:${column}: ${message}`;
}

/** The first problem as an error; `millrace config check` shows them all. */
function errorOf(file: string, problems: readonly [ConfigProblem, ...ConfigProblem[]]): MillraceError {
  const [first, ...rest] = problems;
  const more = rest.length === 0 ? "" : ` (and ${rest.length} more: millrace config check ${file})`;
  return new MillraceError(first.code, `${formatProblem(file, first)}${more}`, { hint: first.hint });
}

export function readConfigText(file: string): string {
  try {
    return readRegular(file);
  } catch (cause) {
    const message = `expected a configuration file at ${file}, got ${gotOf(cause)}`;
    throw new MillraceError("file_unreadable", message, { cause, hint: "check the path and its permissions" });
  }
}

export function readConfig(file: string, environment: NodeJS.ProcessEnv): FleetConfig {
  return parseConfig(readConfigText(file), file, environment);
}

/** @param file name of the file in messages */
export function parseConfig(text: string, file: string, environment: NodeJS.ProcessEnv): FleetConfig {
  const { config, problems } = checkConfig(text, environment);
  if (config === undefined) throw errorOf(file, problems);
  return config;
}
