import { Command } from "commander";
import { expect, test } from "vitest";
import { addServerOptions, type ServerFlags } from "./server-options.js";

const kwargsOf = (json: string) =>
  addServerOptions(new Command().exitOverride())
    .parse(["--default-chat-template-kwargs", json], { from: "user" })
    .opts<ServerFlags>().defaultChatTemplateKwargs;

test("default arguments of the template are under the same rules as a request's", () => {
  expect(kwargsOf('{"enable_thinking": false, "a": {"b": [1]}}')).toEqual({ enable_thinking: false, a: { b: [1] } });
  for (const name of ["messages", "tools", "chat_template", "add_generation_prompt"]) {
    expect(() => kwargsOf(JSON.stringify({ [name]: 1 }))).toThrow(/kwargs to be an object .* without the server's own/);
  }
  expect(() => kwargsOf(`{"a": ${"[".repeat(16)}${"]".repeat(16)}}`)).toThrow("nested at most 16 deep");
  expect(() => kwargsOf("[]")).toThrow("a JSON object");
});
