/** The known batch endpoints. */
import type { Provider } from "../dialects/provider.js";
import { AnthropicEndpoint } from "./anthropic-endpoint.js";
import type { BatchEndpoint } from "./endpoint.js";
import { OpenAiEndpoint } from "./openai-endpoint.js";
import { ProviderHttp } from "./provider-http.js";

/** Undefined: the provider has no known batch endpoint. */
export function batchEndpointOf(provider: Provider, url: string): BatchEndpoint | undefined {
  if (provider.engine === "openai") return new OpenAiEndpoint(new ProviderHttp(provider, url));
  return provider.engine === "anthropic" ? new AnthropicEndpoint(new ProviderHttp(provider, url)) : undefined;
}
