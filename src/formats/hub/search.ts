/** Searches the hub: repositories by words of their names, and the models in one of them. */
import { z } from "zod";
import { type HubOptions, questionAccess } from "./access.js";
import { folderModel, groupModels, withoutCompanions } from "./choose.js";
import { fetchListing, hubError } from "./listing.js";
import { HUB_PREFIX, parseHubSpec } from "./spec.js";

/** Tags of the hub for the forms of weights that engines here read. */
export const HUB_FORMATS = ["gguf", "safetensors"] as const;

const REPOSITORY = z.object({
  name: z.string(),
  downloads: z.number().catch(0),
  likes: z.number().catch(0),
  updatedAt: z.date().optional().catch(undefined),
  /** Downloads need a token that was granted access. */
  gated: z
    .union([z.boolean(), z.string()])
    .transform((value) => value !== false)
    .catch(false),
});

type HubRepository = z.infer<typeof REPOSITORY>;

interface HubVariant {
  /** As `--model` takes it. */
  readonly name: string;
  /** The file's name without its end; of safetensors, "model.safetensors". */
  readonly label: string;
  readonly numBytes: number;
  /** False: the hub lacks some of the model's shards. */
  readonly isWhole: boolean;
}

export interface HubSearch {
  readonly query: string;
  readonly format: (typeof HUB_FORMATS)[number];
  readonly limit: number;
}

/** Most downloaded first. */
export async function searchHub(search: HubSearch, options: HubOptions): Promise<readonly HubRepository[]> {
  const { query, format, limit } = search;
  const access = questionAccess(options);
  const found: HubRepository[] = [];
  try {
    const { listModels } = await import("@huggingface/hub");
    const models = listModels({
      search: { query, tags: [format] },
      sort: "downloads",
      limit,
      hubUrl: access.endpoint,
      fetch: access.fetch,
    });
    for await (const each of models) found.push(REPOSITORY.parse(each));
  } catch (thrown) {
    throw hubError(thrown, `models by the name ${JSON.stringify(query)}`, access.endpoint);
  }
  return found;
}

/** @param spec hf:org/repo[@revision] */
export async function hubVariants(spec: string, options: HubOptions): Promise<readonly HubVariant[]> {
  const parsed = parseHubSpec(spec);
  const base = HUB_PREFIX + parsed.repo + (parsed.revision === "main" ? "" : `@${parsed.revision}`);
  const entries = await fetchListing(questionAccess(options), parsed);
  const sizes = new Map(entries.map(({ path, sizeBytes }) => [path, sizeBytes]));
  const names = [...sizes.keys()];
  const ggufs = withoutCompanions(groupModels(names));
  // As when downloading: beside GGUF files a folder is not what the repository's name means.
  const folder = ggufs.length > 0 ? undefined : folderModel(names);
  return (folder === undefined ? ggufs : [folder]).map((model) => ({
    name: model.isFolder === true ? base : `${base}:${model.files[0]}`,
    label: model.label,
    numBytes: model.files.reduce((sum, file) => sum + (sizes.get(file) ?? 0), 0),
    isWhole: model.files.every((file) => sizes.has(file)),
  }));
}
