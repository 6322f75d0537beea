import { Hono } from "hono";
import { expect, test } from "vitest";
import type { AppContext } from "../http/context.js";
import { jsonInTurns } from "./json-in-turns.js";

const busy = (ms: number) => {
  for (const end = performance.now() + ms; performance.now() < end; );
};

test("others have their turn between slow choices, and the answer is one JSON object", async () => {
  let numTurns = 0;
  const app = new Hono();
  app.get("/", (c) => {
    const choices = [0, 1, 2].map((index) => () => {
      busy(8);
      setImmediate(() => numTurns++);
      return { index, turns: numTurns };
    });
    return jsonInTurns(c as unknown as AppContext, { id: "a" }, ["choices", choices], () => ({ usage: numTurns }));
  });
  const response = await app.request("/");
  expect(response.headers.get("content-type")).toBe("application/json");
  const choices = [0, 1, 2].map((index) => ({ index, turns: index }));
  expect(await response.json()).toEqual({ id: "a", choices, usage: 2 });
});
