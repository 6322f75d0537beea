/** The flags of commands that use a model behind a server. */
import { type Command, Option } from "commander";

export interface ServerFlags {
  readonly url?: string;
  readonly apiKey?: string;
}

/** @param unnamed the model to ask without --model */
export function addServerOptions(command: Command, unnamed: string): Command {
  return command
    .option("--url <url>", `URL of an OpenAI-compatible server, whose model --model names (default: ${unnamed})`)
    .addOption(new Option("--api-key <key>", "API key for servers").env("OPENAI_API_KEY"));
}
