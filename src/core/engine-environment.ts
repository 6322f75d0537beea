/** The environment that an engine or server inherits when this process starts it. */

/** Not inherited: these would give an engine an unrequested API key, and its clients here would be refused. */
const KEY_VARIABLES = ["MILLRACE_API_KEY", "MILLRACE_ADMIN_KEY", "VLLM_API_KEY", "LLAMA_API_KEY", "API_KEY"];

export const inheritedEnvironment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !KEY_VARIABLES.includes(name)));
