import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { budgetOf, budgetStoreConformance } from "../../../test/helpers/budget-store-conformance.js";
import { type DatabaseServer, postgresPath, startPostgres } from "../../../test/helpers/database-servers.js";
import { claimsOf } from "./claims.js";
import { PostgresStore } from "./postgres-store.js";

describe.skipIf(postgresPath === undefined)("PostgreSQL (needs postgres)", () => {
  let server: DatabaseServer;
  let numBenches = 0;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  budgetStoreConformance(async () => {
    const namespace = `test${numBenches++}`;
    return {
      open: async (now) => new PostgresStore({ url: server.url, timeoutMs: 5000, now, namespace }),
      [Symbol.asyncDispose]: async () => {},
    };
  }, true);

  test("a server that is gone is told at once, and one that is back is used", async () => {
    const store = new PostgresStore({ url: server.url, timeoutMs: 500, namespace: "gone" });
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
