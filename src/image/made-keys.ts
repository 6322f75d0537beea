/** The keys that a machine's first boot generates, each in a file of the state folder. */

/** The key of the API. */
export const KEY_VARIABLE = "MILLRACE_API_KEY";

/** A file's name in the state folder, and the paths that its key opens. */
interface MadeKey {
  readonly variable: string;
  readonly file: string;
  readonly about: string;
}

export const MADE_KEYS: readonly MadeKey[] = [
  { variable: KEY_VARIABLE, file: "api-key", about: "its key" },
  { variable: "MILLRACE_ADMIN_KEY", file: "admin-key", about: "the administrator's key" },
];
