/** Flags of engines that run one instance on several hosts, each with a part of the layers. */

interface HostPlace {
  /** Hosts of the instance; they form the engine's pipeline. */
  readonly numHosts: number;
  /** The same number, this host's index, and the first host's address, as command-line arguments. */
  readonly size: string;
  readonly rank: string;
  readonly head: string;
  readonly port: number;
  readonly isHead: boolean;
}

/**
 * From each engine's documentation: vLLM's own processes (docs.vllm.ai, Parallelism and Scaling; without Ray), SGLang's
 * `--nnodes`. The first host answers requests.
 */
export const MULTI_HOST_FLAGS = {
  vllm: ({ numHosts, size, rank, head, port, isHead }: HostPlace): readonly string[] => [
    "--pipeline-parallel-size",
    String(numHosts),
    "--nnodes",
    size,
    "--node-rank",
    rank,
    "--master-addr",
    head,
    "--master-port",
    String(port),
    ...(isHead ? [] : ["--headless"]),
  ],
  sglang: ({ numHosts, size, rank, head, port }: HostPlace): readonly string[] => [
    "--pp-size",
    String(numHosts),
    "--nnodes",
    size,
    "--node-rank",
    rank,
    "--dist-init-addr",
    `${head}:${port}`,
  ],
} as const;
