/** The administrator's paths under /admin/library. The enclosing server checks who may use them. */
import { Hono } from "hono";
import { z } from "zod";
import { listBody } from "../core/list-body.js";
import type { ModelLibrary, PullStatus } from "../core/model-library.js";
import { readQuery } from "../core/query.js";
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

const seconds = (ms: number | undefined): number | null => (ms === undefined ? null : Math.floor(ms / 1000));

function shown({ error, startedAtMs, endedAtMs, ...status }: PullStatus): object {
  const problem = error && { code: error.code, message: error.message, ...(error.hint && { hint: error.hint }) };
  const times = { startedAt: seconds(startedAtMs), endedAt: seconds(endedAtMs) };
  return snakeNames({ ...status, file: status.file ?? null, ...times, error: problem ?? null });
}

/** @example openLibrary({ uses: () => ["/models/served.gguf"] }).app */
export function openLibrary(options: LibraryOptions): ModelLibrary {
  const library = new Library(options);
  return {
    app: createLibraryApp(library),
    servable: () => library.servable(),
    pull: (name) => library.pull(name),
    remove: (name) => library.remove(name),
    hold: (name, use) => library.hold(name, use),
  };
}

function createLibraryApp(library: Library): Hono {
  const app = new Hono();
  app.get("/", async (c) => {
    const { models, ...disk } = await library.list();
    return c.json({ ...listBody(models.map(snakeNames)), ...snakeNames(disk) });
  });
  app.get("/hub", async (c) => {
    const { search: query, ...rest } = readQuery(searchQuery, c.req.query());
    const found = await library.search({ query, ...rest });
    const rows = found.map(({ updatedAt, ...each }) => ({ ...each, updatedAt: seconds(updatedAt?.getTime()) }));
    return c.json(listBody(rows.map(snakeNames)));
  });
  app.get("/hub/:org/:repo", async (c) => {
    const { revision } = readQuery(revisionQuery, c.req.query());
    const name = `${c.req.param("org")}/${c.req.param("repo")}${revision === "main" ? "" : `@${revision}`}`;
    return c.json(listBody((await library.variants(name)).map(snakeNames)));
  });
  app.get("/memory", async (c) => {
    const { model, context } = readQuery(memoryQuery, c.req.query());
    return c.json(snakeNames(await library.need(model, context)));
  });
  app.get("/pulls", (c) => c.json(listBody(library.pulls.list().map(shown))));
  app.get("/pulls/:id", (c) => c.json(shown(library.pulls.get(c.req.param("id")).status())));
  app.delete("/pulls/:id", async (c) => {
    const pull = library.pulls.get(c.req.param("id"));
    await pull.cancel();
    return c.json(shown(pull.status()));
  });
  // Needs no body, and may be repeated: a second request gets the running download.
  app.put("/models/:model{.+}", (c) => c.json(shown(library.pull(c.req.param("model")).status()), 202));
  app.delete("/models/:model{.+}", async (c) => {
    const model = c.req.param("model");
    await library.remove(model);
    return c.json({ model, removed: true });
  });
  return app;
}
