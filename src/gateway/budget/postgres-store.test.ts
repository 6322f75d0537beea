import { afterAll, beforeAll, describe } from "vitest";
import { budgetStoreConformance, goneServerConformance } from "../../../test/helpers/budget-store-conformance.js";
import { type DatabaseServer, postgresPath, startPostgres } from "../../../test/helpers/database-servers.js";
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

  goneServerConformance(
    () => server,
    (url) => new PostgresStore({ url, timeoutMs: 500, namespace: "gone" }),
  );
});
