/**
 * Keeps secrets out of rendered files: each secret of a millrace.yaml must be env:NAME, a variable that the machine
 * sets.
 */
import { MillraceError } from "../core/errors.js";
import { formatPath, type KeyPath } from "../fleet/config/key-paths.js";
import { secretPlacesIn } from "../fleet/config/secret-places.js";

const VARIABLE = /^env:([A-Za-z_]\w*)$/;
const SECRET_NAME =
  /key|token(?!izer)|secret|password|passw?d|passphrase|_pass(_|$)|pwd|credential|auth(_|$|orization)/i;
/** Matches flags that hold a key, but not flags that count tokens or name a tokenizer. */
const SECRET_FLAG = /^--?([\w-]+[_-])?(api[_-]?key|key|token|secret|password|passwd|passphrase|credentials?)(=|$)/i;
const URL_WITH_USER = /(^|[^a-z\d+.-])[a-z][a-z\d+.-]*:\/\/[^\s/?#"']*@/i;
const URL_WITH_KEY = /(^|[^a-z\d+.-])[a-z][a-z\d+.-]*:\/\/\S*[?&][\w-]*(key|token|secret|password|sig|signature)=/i;
/** A JSON member with a key, or a header with one. */
const NAMED_IN_TEXT =
  /["']([\w-]*[_-])?(api[_-]?key|(auth|access|api|hf|bearer)[_-]?token|secret|password)["']\s*:\s*["']|\bbearer\s+\S/i;

function refused(expected: string, got: string, hint: string): MillraceError {
  return new MillraceError("config_secret", `expected ${expected}, got ${got}`, { hint });
}

/** An engine's environment may also have values that are not secret. */
function isPlainVariable({ path, value }: { readonly path: KeyPath; readonly value: string }): boolean {
  const [list, , key, name] = path;
  return list === "models" && key === "env" && !SECRET_NAME.test(String(name)) && !value.startsWith("env:");
}

/** A secret in a text that should have none; undefined: none is found. */
export function secretIn(text: string): string | undefined {
  if (SECRET_FLAG.test(text)) return text.split("=", 1)[0];
  if (URL_WITH_USER.test(text)) return "a URL with a user or password";
  if (URL_WITH_KEY.test(text)) return "a URL with a key in its query";
  return NAMED_IN_TEXT.test(text) ? "a key inside a value" : undefined;
}

function assertNoSecret(value: unknown, file: string, path: KeyPath = []): void {
  if (typeof value === "string") {
    const got = secretIn(value);
    if (got === undefined) return;
    const hint = "use api-keys or env with env:NAME for keys, and URLs without user, password and key";
    throw refused(`no secret at ${formatPath(path)} of ${file}`, got, hint);
  }
  if (typeof value !== "object" || value === null) return;
  const entries: Iterable<[string | number, unknown]> = Array.isArray(value) ? value.entries() : Object.entries(value);
  for (const [key, each] of entries) assertNoSecret(each, file, [...path, key]);
}

/**
 * Throws config_secret for a literal secret.
 *
 * @param root the content of the file, which its schema accepts
 * @returns the names of the variables that the file reads
 */
export function variablesOf(root: unknown, file: string): readonly string[] {
  const places = secretPlacesIn(root).filter((place) => !isPlainVariable(place));
  const names = places.map(({ path, value }) => {
    const variable = VARIABLE.exec(value)?.[1];
    if (variable !== undefined) return variable;
    const hint =
      "images contain no secrets: use an environment variable that the machine sets, named with letters, digits and underscores";
    throw refused(`env:NAME at ${formatPath(path)} of ${file}`, "something else", hint);
  });
  assertNoSecret(root, file);
  return [...new Set(names)].sort();
}
