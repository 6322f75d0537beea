import { afterAll, beforeAll, describe } from "vitest";
import { budgetStoreConformance, goneServerConformance } from "../../../test/helpers/budget-store-conformance.js";
import { type DatabaseServer, redisPath, startRedis } from "../../../test/helpers/database-servers.js";
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

  goneServerConformance(
    () => server,
    (url) => new RedisStore({ url, timeoutMs: 500, namespace: "gone" }),
  );
});
