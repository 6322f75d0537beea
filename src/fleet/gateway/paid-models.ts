/** The names that lead to paid APIs, and the field that limits their answers. */
import { isProviderEngine } from "../config/provider-conflicts.js";
import { perConfig } from "./per-config.js";
import type { PolicyContext } from "./policy-context.js";
import { modelsBehind } from "./virtual-price.js";

/** @returns whether one of the models behind a name is a paid API */
export const paidModels = ({ config, models }: Pick<PolicyContext, "config" | "models">): ((name: string) => boolean) =>
  perConfig(config, (name, now) =>
    modelsBehind(now, name).some((each) => {
      const engine = models.engine(models.resolve(each) ?? each);
      return engine !== undefined && isProviderEngine(engine);
    }),
  );

/** Our own servers and attached engines may ignore OpenAI's newer name. */
export function maxTokensField(
  context: Pick<PolicyContext, "config" | "models">,
): (name: string) => "max_tokens" | "max_completion_tokens" {
  const isPaid = paidModels(context);
  return (name) => (isPaid(name) ? "max_completion_tokens" : "max_tokens");
}
