/** The environment that a started engine or server inherits from this process. */

/**
 * Not inherited: these would set an engine's API key although nothing asks for one, and its clients here would be
 * refused.
 */
const KEY_VARIABLES = ["MILLRACE_API_KEY", "MILLRACE_ADMIN_KEY", "VLLM_API_KEY", "LLAMA_API_KEY", "API_KEY"];

export const inheritedEnvironment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !KEY_VARIABLES.includes(name)));
