/** `hf:org/repo[@revision][:file]`: its syntax, and the file names that are safe to write below the cache folder. */
import { join } from "node:path";
import { MillraceError } from "../../core/errors.js";

export const HUB_PREFIX = "hf:";

export interface HubSpec {
  /** "org/repo". */
  readonly repo: string;
  /** Branch, tag or commit. */
  readonly revision: string;
  /** A file's name or a quantisation tag; undefined leaves the choice to us. */
  readonly file: string | undefined;
}

const NAME_PATTERN = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;
const SPEC_HINT = "write hf:org/repo, hf:org/repo:Q4_K_M or hf:org/repo:file.gguf";

/** @example parseHubSpec("hf:org/repo:Q4_K_M") // { repo: "org/repo", revision: "main", file: "Q4_K_M" } */
export function parseHubSpec(spec: string): HubSpec {
  const [location = "", ...rest] = spec.slice(HUB_PREFIX.length).split(":");
  const file = rest.length === 0 ? undefined : rest.join(":");
  const [repo = "", revision = "main", ...excess] = location.split("@");
  const [org, name, ...deeper] = repo.split("/");
  const isWellFormed =
    isPlainName(org) &&
    isPlainName(name) &&
    deeper.length === 0 &&
    excess.length === 0 &&
    revision.split("/").every(isPlainName);
  if (!isWellFormed) {
    throw new MillraceError(
      "hub_spec",
      `expected hf:org/repo[@revision][:file], got ${JSON.stringify(spec.slice(0, 200))}`,
      {
        hint: SPEC_HINT,
      },
    );
  }
  if (file !== undefined) refuseUnsafePath(file);
  return { repo, revision, file };
}

/** Ollama's names of the hub. */
const OTHER_PREFIXES = /^(?:https:\/\/)?(?:hf\.co|huggingface\.co)\//;

/**
 * As people write it: `org/repo`, `hf.co/org/repo` and the page's address mean the same as `hf:org/repo`.
 *
 * @example hubSpecFrom("hf.co/org/repo:Q4_K_M") // "hf:org/repo:Q4_K_M"
 */
export function hubSpecFrom(name: string): string {
  const bare = name.startsWith(HUB_PREFIX) ? name.slice(HUB_PREFIX.length) : name.replace(OTHER_PREFIXES, "");
  const spec = HUB_PREFIX + bare;
  parseHubSpec(spec);
  return spec;
}

function isPlainName(name: string | undefined): boolean {
  return name !== undefined && NAME_PATTERN.test(name) && !name.includes("..");
}

/** Where a revision's files lie in the cache. */
export function hubFolder(cacheDir: string, { repo, revision }: HubSpec): string {
  return join(cacheDir, "hub", repo, revision.replaceAll("/", "--"));
}

/** Lock file in that folder, held while downloading into it or removing from it. */
export const LOCK_NAME = "download.lock";

/** Refuses names that would leave the folder they are written to, wherever they come from. */
export function refuseUnsafePath(path: string): void {
  const isSafe = path.split("/").every((part) => part !== "" && part !== "." && part !== "..") && !/[\\:\0]/.test(path);
  if (isSafe) return;
  throw new MillraceError("hub_spec", `expected a file name inside the repository, got ${JSON.stringify(path)}`, {
    hint: SPEC_HINT,
  });
}
