import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { budgetOf, budgetStoreConformance } from "../../../test/helpers/budget-store-conformance.js";
import { type DatabaseServer, redisPath, startRedis } from "../../../test/helpers/database-servers.js";
import { claimsOf } from "./claims.js";
import { RedisStore } from "./redis-store.js";

describe.skipIf(redisPath === undefined)("Redis (needs redis-server)", () => {
  let server: DatabaseServer;
  let numBenches = 0;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  budgetStoreConformance(async () => {
    const namespace = `test${numBenches++}`;
    return {
      open: async (now) => new RedisStore({ url: server.url, timeoutMs: 5000, now, namespace }),
      [Symbol.asyncDispose]: async () => {},
    };
  }, true);

  test("a server that is gone is told at once, and one that is back is used", async () => {
    const store = new RedisStore({ url: server.url, timeoutMs: 500, namespace: "gone" });
    const claims = claimsOf([budgetOf("a", 100)]);
    const reserve = (id: string) => store.reserve({ id, claims, wantMoney: 60, leastMoney: 60, tokens: 0 });
    expect(await reserve("1")).toMatchObject({ kind: "reserved" });
    await server.kill();
    await expect(reserve("2")).rejects.toMatchObject({ code: "budget_store_failed" });
    await expect(store.settle("1", 60, 0)).rejects.toMatchObject({ code: "budget_store_failed" });
    await server.restart();
    const settle = async (): Promise<boolean> => store.settle("1", 60, 0).catch(settle);
    expect(await settle()).toBe(true);
    expect(await reserve("3")).toMatchObject({ kind: "refused" });
    await store.close();
  });
});
