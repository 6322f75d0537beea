/** Paths of health probes: ours, llama-server's and SageMaker's. */
export const HEALTH_PATHS: readonly string[] = ["/health", "/v1/health", "/ping"];
