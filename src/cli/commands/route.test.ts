import { expect, test } from "vitest";
import { routeCommand } from "./route.js";

const TRAIN = ["train", "--small", "a", "--large", "b", "--url", "http://127.0.0.1:9", "--prompts", "p", "--out", "o"];

test.each([
  ["a small model that is as dear as the large one", ["--small-price", "1,2", "--large-price", "1,2"], "costs less"],
  ["one price of two", ["--small-price", "1,2"], "together"],
])("%s is refused before any prompt is sent", async (_, prices, message) => {
  const trained = routeCommand().parseAsync([...TRAIN, ...prices], { from: "user" });
  await expect(trained).rejects.toMatchObject({ code: "invalid_option", message: expect.stringContaining(message) });
});
