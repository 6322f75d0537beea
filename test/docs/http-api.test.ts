/** docs/reference/http-api.md has an example for each endpoint that the server describes. */
import { expect, test } from "vitest";
import { createApp } from "../../src/serve/app.js";
import { fakeAppOptions } from "../helpers/fake-server.js";
import { blocksOf } from "./shell-blocks.js";

/**
 * Names of the app's files change with their content. Nothing runs in the background, so a response is over before it
 * could be cancelled.
 */
const WITHOUT_EXAMPLE = ["/app/{file}", "/v1/responses/{id}/cancel"];

test("every endpoint has an example", async () => {
  const { paths } = (await (await createApp(fakeAppOptions().options).request("/openapi.json")).json()) as {
    paths: Record<string, unknown>;
  };
  const examples = blocksOf("docs/reference/http-api.md")
    .map(({ text }) => text)
    .join("\n");
  const hasExample = (path: string): boolean =>
    new RegExp(`127\\.0\\.0\\.1:8000${path.replace(/\{\w+\}/g, "[\\w$-]+")}["\\s]`).test(examples);
  const missing = Object.keys(paths).filter((path) => path !== "/" && !hasExample(path));
  expect(missing).toEqual(WITHOUT_EXAMPLE);
});
