/** The administrator's paths of canaries, under /admin. */
import { Hono } from "hono";
import { z } from "zod";
import { snakeNames } from "../../core/snake-names.js";
import { parseFields } from "../../gateway/tenants/settings.js";
import type { Canaries, CanaryReport } from "./canaries.js";

const MAX_MINUTES = 7 * 24 * 60;
const MAX_ARGS = 100;
const MAX_ARG_LENGTH = 10_000;

const body = z.strictObject({
  model: z.string().min(1),
  args: z.array(z.string().max(MAX_ARG_LENGTH)).max(MAX_ARGS).default([]),
  weights: z.string().min(1).max(MAX_ARG_LENGTH).optional(),
  share: z.number().min(0.001).max(0.9).optional(),
  minutes: z.number().min(0.05).max(MAX_MINUTES).default(30),
  max_slowdown: z.number().min(1).max(100).default(1.1),
  max_failures: z.number().min(0).max(1).default(0.01),
  max_ttft_ms: z.number().positive().optional(),
  max_tpot_ms: z.number().positive().optional(),
});

const shown = (report: CanaryReport): object => ({ object: "canary", ...snakeNames(report) });

export function createCanaryApp(canaries: Canaries): Hono {
  const app = new Hono();
  app.get("/canaries", (c) => c.json({ object: "list", data: canaries.list().map(shown) }));
  app.get("/canaries/:model{.+}", (c) => c.json(shown(canaries.report(c.req.param("model")))));
  app.post("/canaries", async (c) => {
    const given = parseFields(body, await c.req.json().catch(() => undefined));
    const { model, args, weights, share, minutes } = given;
    const limits = {
      maxSlowdown: given.max_slowdown,
      maxFailures: given.max_failures,
      maxTtftMs: given.max_ttft_ms,
      maxTpotMs: given.max_tpot_ms,
    };
    return c.json(shown(await canaries.start(model, { args, weights, share, minutes, limits })), 202);
  });
  app.delete("/canaries/:model{.+}", (c) => c.json(shown(canaries.stop(c.req.param("model")))));
  return app;
}
