/** The administrator's paths under /admin/library. A role that may only look is served the GETs alone. */
import { type Context, Hono } from "hono";
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import type { ModelLibrary, PullStatus } from "../core/model-library.js";
import { snakeNames } from "../core/snake-names.js";
import { HUB_FORMATS } from "../formats/hub/search.js";
import { Library, type LibraryOptions } from "./library.js";

const MOST_CONTEXT = 2 ** 27;

const searchQuery = z.strictObject({
  search: z.string().min(1).max(200),
  format: z.enum(HUB_FORMATS).default("gguf"),
  limit: z.coerce.number().int().min(1).max(50).default(20),
});
const revisionQuery = z.strictObject({ revision: z.string().min(1).max(200).default("main") });
const memoryQuery = z.strictObject({
  model: z.string().min(1).max(400),
  context: z.coerce.number().int().min(1).max(MOST_CONTEXT).optional(),
});

function queryOf<T extends z.ZodType>(c: Context, schema: T): z.infer<T> {
  const parsed = schema.safeParse(c.req.query());
  if (parsed.success) return parsed.data;
  const [{ path, message } = { path: [], message: "" }] = parsed.error.issues;
  const param = path.join(".");
  const where = param === "" ? "the query" : param;
  throw new MillraceError("invalid_parameter", `${where}: ${message}`, param === "" ? {} : { param });
}

function shown({ error, startedAtMs, endedAtMs, ...status }: PullStatus): object {
  const seconds = (ms: number | undefined): number | null => (ms === undefined ? null : Math.floor(ms / 1000));
  const problem = error && { code: error.code, message: error.message, ...(error.hint && { hint: error.hint }) };
  const times = { startedAt: seconds(startedAtMs), endedAt: seconds(endedAtMs) };
  return snakeNames({ ...status, file: status.file ?? null, ...times, error: problem ?? null });
}

/** @example openLibrary({ uses: () => ["/models/served.gguf"] }).app */
export function openLibrary(options: LibraryOptions): ModelLibrary {
  const library = new Library(options);
  return {
    app: createLibraryApp(library),
    pull: (name) => library.pull(name),
    remove: (name) => library.remove(name),
    find: (name) => library.find(name),
  };
}

function createLibraryApp(library: Library): Hono {
  const app = new Hono();
  app.get("/", async (c) => c.json(snakeNames(await library.list())));
  app.get("/hub", async (c) => {
    const { search: query, ...rest } = queryOf(c, searchQuery);
    const found = await library.search({ query, ...rest });
    return c.json({
      data: snakeNames(
        found.map(({ updatedAt, ...each }) => ({ ...each, updatedAt: updatedAt?.toISOString() ?? null })),
      ),
    });
  });
  app.get("/hub/:org/:repo", async (c) => {
    const { revision } = queryOf(c, revisionQuery);
    const name = `${c.req.param("org")}/${c.req.param("repo")}${revision === "main" ? "" : `@${revision}`}`;
    return c.json({ data: snakeNames(await library.variants(name)) });
  });
  app.get("/memory", async (c) => {
    const { model, context } = queryOf(c, memoryQuery);
    return c.json(snakeNames(await library.need(model, context)));
  });
  app.get("/pulls", (c) => c.json({ data: library.pulls.list().map(shown) }));
  app.get("/pulls/:id", (c) => c.json(shown(library.pulls.get(c.req.param("id")).status())));
  app.delete("/pulls/:id", async (c) => {
    const pull = library.pulls.get(c.req.param("id"));
    await pull.cancel();
    return c.json(shown(pull.status()));
  });
  // Without a body, and the same however often: whoever asks twice gets the download that runs.
  app.put("/models/:model{.+}", (c) => c.json(shown(library.pull(c.req.param("model")).status()), 202));
  app.delete("/models/:model{.+}", async (c) => {
    const model = c.req.param("model");
    await library.remove(model);
    return c.json({ model, removed: true });
  });
  return app;
}
