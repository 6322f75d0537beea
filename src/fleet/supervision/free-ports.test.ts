/** Ports: free, and reserved only once. */
import { createServer } from "node:net";
import { expect, it } from "vitest";
import { reservePorts } from "./free-ports.js";

it("ports reserved at the same time are all different and free, and can be reserved again", async () => {
  const all = await Promise.all(Array.from({ length: 40 }, () => reservePorts("127.0.0.1", 3)));
  const ports = all.flatMap((each) => each.ports);
  expect(new Set(ports).size).toBe(120);
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(ports[0], "127.0.0.1", resolve));
  await new Promise((resolve) => server.close(resolve));
  for (const each of all) each.release();
  for (const each of all) each.release();
});

it("an address of another machine is an error", async () => {
  await expect(reservePorts("192.0.2.1", 1)).rejects.toThrow("EADDRNOTAVAIL");
});
