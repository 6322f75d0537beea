import { expect, test } from "vitest";
import { ownUrlOf, urlOf } from "./listen.js";

test("an address as a URL, and as this machine's own programs reach it", () => {
  const certificate = { certfile: "c", keyfile: "k" };
  expect(urlOf({ host: "::", port: 1, certificate: undefined })).toBe("http://[::]:1");
  expect(urlOf({ host: "0.0.0.0", port: 1, certificate })).toBe("https://0.0.0.0:1");
  const own = ["0.0.0.0", "", "::", "10.0.0.5", "localhost"].map((host) => ownUrlOf({ host, port: 1, certificate }));
  expect(own).toEqual(["127.0.0.1", "127.0.0.1", "[::1]", "10.0.0.5", "localhost"].map((host) => `https://${host}:1`));
});
