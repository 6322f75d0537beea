/**
 * Speaks the documented interface of an engine that cannot run here: its flags (and no others), its health, its metrics
 * under its own names, chat streaming, sleep. The "model" repeats a word.
 *
 *   node stand-in-engine.mjs <engine> <the engine's own arguments>
 *
 * STAND_IN_READY_AFTER_MS: 503 until then. STAND_IN_TOKEN_MS: between two tokens.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const [engineName, ...argv] = process.argv.slice(2);
const { env } = process;

const series = (samples, labels = "") => samples.map(([name, value]) => `${name}${labels} ${value}\n`).join("");

const vllmMetrics = (prefix, labels) => (s) =>
  series(
    [
      ["num_requests_running", s.numRunning],
      ["num_requests_waiting", 0],
      ["kv_cache_usage_perc", 0.25],
      ["prompt_tokens_total", s.promptTokens],
      ["generation_tokens_total", s.generationTokens],
      ["prefix_cache_queries_total", s.promptTokens],
      ["prefix_cache_hits_total", 0],
      ["num_preemptions_total", 0],
      ["spec_decode_num_draft_tokens_total", 0],
      ["spec_decode_num_accepted_tokens_total", 0],
    ].map(([name, value]) => [prefix + name, value]),
    labels,
  );

/** The list of models of vLLM, and of engines that follow it. */
const modelPages = (name, length) => (flags) => ({
  "/v1/models": {
    object: "list",
    data: [
      { id: "a-lora", object: "model", max_model_len: 1 },
      { id: flags.get(name), object: "model", max_model_len: Number(flags.get(length)) },
    ],
  },
});

/** A flag with a value, unless its name ends with "!". */
const ENGINES = {
  millrace: {
    flags:
      "--model --host --port --served-model-name --max-model-len --max-num-seqs --max-num-batched-tokens --kv-cache-dtype --kv-cache-memory-bytes --enable-prefix-caching! --no-enable-prefix-caching! --speculative-config --scheduling-policy --threads",
    key: () => env.MILLRACE_API_KEY,
    metrics: (s) =>
      `${vllmMetrics("millrace:", "")(s)}millrace:cache_config_info{block_size="16",num_kv_blocks="64",cache_dtype="f16"} 1\n`,
    pages: modelPages("--served-model-name", "--max-model-len"),
  },
  vllm: {
    takesModel: true,
    flags:
      "--host --port --served-model-name --max-model-len --max-num-seqs --max-num-batched-tokens --kv-cache-dtype --kv-cache-memory-bytes --quantization --tensor-parallel-size --gpu-memory-utilization --enable-prefix-caching! --no-enable-prefix-caching! --speculative-config --scheduling-policy --enable-sleep-mode! --kv-events-config",
    key: () => env.VLLM_API_KEY,
    knowsModel: (model, flags) => model === flags.get("--served-model-name"),
    metrics: (s) =>
      `# HELP vllm:num_requests_running Number of requests in model execution batches.\n# TYPE vllm:num_requests_running gauge\n${vllmMetrics("vllm:", '{engine="0",model_name="a \\"b\\""}')(s)}vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="64",hash_block_size="16",kv_cache_size_tokens="960",num_cpu_blocks="None"} 1.0\n`,
    pages: modelPages("--served-model-name", "--max-model-len"),
    sleepPaths: (flags) =>
      env.VLLM_SERVER_DEV_MODE === "1" && flags.has("--enable-sleep-mode") ? ["/sleep?level=1", "/wake_up"] : [],
  },
  sglang: {
    flags:
      "--model-path --host --port --enable-metrics! --served-model-name --context-length --max-running-requests --chunked-prefill-size --kv-cache-dtype --quantization --tp-size --mem-fraction-static --disable-radix-cache! --speculative-algorithm --speculative-draft-model-path --speculative-num-draft-tokens --speculative-num-steps --speculative-eagle-topk --schedule-policy --enable-priority-scheduling! --schedule-low-priority-values-first! --default-priority-value --enable-memory-saver! --api-key",
    key: (flags) => flags.get("--api-key"),
    metrics: (s, flags) =>
      flags.has("--enable-metrics")
        ? series(
            [
              ["sglang:num_running_reqs", s.numRunning],
              ["sglang:num_queue_reqs", 0],
              ["sglang:token_usage", 0.25],
              ["sglang:prompt_tokens_total", s.promptTokens],
              ["sglang:generation_tokens_total", s.generationTokens],
              ["sglang:cached_tokens_total", 0],
              ["sglang:num_retracted_requests_total", 0],
            ],
            '{engine_type="unified",model_name="m",pp_rank="0",priority="",tp_rank="0"}',
          ) +
          (flags.has("--enable-priority-scheduling")
            ? series([["sglang:num_running_reqs", s.numRunning]], '{model_name="m",priority="0",tp_rank="0"}')
            : "")
        : undefined,
    pages: (flags) => ({
      ...modelPages("--served-model-name", "--context-length")(flags),
      "/server_info": {
        max_running_requests: Number(flags.get("--max-running-requests")),
        max_total_num_tokens: 1024,
        page_size: 16,
      },
    }),
    sleepPaths: (flags) =>
      flags.has("--enable-memory-saver") ? ["/release_memory_occupation", "/resume_memory_occupation"] : [],
    abortPath: "/abort_request",
  },
  "tensorrt-llm": {
    takesModel: true,
    flags:
      "--host --port --extra_llm_api_options --max_seq_len --max_batch_size --max_num_tokens --tp_size --pp_size --backend --tokenizer",
    key: () => undefined,
    metricsPath: "/prometheus/metrics",
    metrics(s, flags) {
      const config = readFileSync(flags.get("--extra_llm_api_options"), "utf8");
      const isOn = ["return_perf_metrics", "enable_iter_perf_stats"].every((name) =>
        config.includes(`${name}: true\n`),
      );
      const samples = [
        ["trtllm_num_requests_running", s.numRunning],
        ["trtllm_num_requests_waiting", 0],
        ["trtllm_kv_cache_utilization", 0.25],
        ["trtllm_prompt_tokens_total", s.promptTokens],
        ["trtllm_generation_tokens_total", s.generationTokens],
      ];
      return isOn ? series(samples, '{model_name="m",engine_type="undefined"}') : undefined;
    },
  },
  tgi: {
    flags:
      "--model-id --hostname --port --master-port --shard-uds-path --max-total-tokens --max-batch-size --max-batch-prefill-tokens --kv-cache-dtype --quantize --num-shard --cuda-memory-fraction --speculate",
    key: () => env.API_KEY,
    metrics: (s) =>
      series([
        ["tgi_batch_current_size", s.numRunning],
        ["tgi_queue_size", 0],
        ['tgi_request_generated_tokens_bucket{le="+Inf"}', 1],
        ["tgi_request_generated_tokens_sum", s.generationTokens],
        ["tgi_request_generated_tokens_count", 1],
        ["tgi_request_input_length_sum", s.promptTokens],
      ]),
    pages: (flags) => ({
      "/info": { max_batch_total_tokens: 1024, max_batch_size: Number(flags.get("--max-batch-size")) },
    }),
  },
  "llama-server": {
    flags:
      "-m --host --port --metrics! --alias -c -np -b -ctk -ctv -fa --cache-prompt! --no-cache-prompt! --spec-type --spec-draft-model --spec-draft-n-max --spec-ngram-simple-size-m -t",
    key: () => env.LLAMA_API_KEY,
    metrics: (s, flags) =>
      flags.has("--metrics")
        ? series([
            ["llamacpp:requests_processing", s.numRunning],
            ["llamacpp:requests_deferred", 0],
            ["llamacpp:prompt_tokens_total", s.promptTokens],
            ["llamacpp:prompt_tokens_cached_total", 0],
            ["llamacpp:tokens_predicted_total", s.generationTokens],
            ["llamacpp:spec_decode_num_draft_tokens_total", 0],
            ["llamacpp:spec_decode_num_accepted_tokens_total", 0],
          ])
        : undefined,
    pages: (flags) => ({
      "/props": {
        total_slots: Number(flags.get("-np")),
        default_generation_settings: { n_ctx: Number(flags.get("-c")) / Number(flags.get("-np")) },
      },
    }),
  },
  ollama: {
    flags: "",
    healthPath: "/",
    key: () => undefined,
    knowsModel: (model) => model === "a-model",
    isKeptAlive: true,
  },
};

const engine = ENGINES[engineName];

function readFlags() {
  if (engineName === "llama-server" && argv[0] === "--help") {
    process.stdout.write(
      "-fa,   --flash-attn [on|off|auto]\n--spec-type none,draft-simple\n--draft, --draft-max N  the argument has been removed\n",
    );
    process.exit(0);
  }
  const known = new Set(engine.flags.split(" "));
  const flags = new Map();
  const rest = [...argv];
  if (engine.takesModel) flags.set("model", rest.shift());
  while (rest.length > 0) {
    const flag = rest.shift();
    const hasValue = known.has(flag);
    if (!hasValue && !known.has(`${flag}!`)) {
      process.stderr.write(`error: unrecognized arguments: ${flag}\n`);
      process.exit(2);
    }
    flags.set(flag, hasValue ? rest.shift() : true);
  }
  return flags;
}

const flags = readFlags();
const [ollamaHost, ollamaPort] = (env.OLLAMA_HOST ?? "127.0.0.1:0").split(":");
const host = flags.get("--host") ?? flags.get("--hostname") ?? ollamaHost;
const port = Number(flags.get("--port") ?? ollamaPort);
const key = engine.key(flags);
const [sleepPath, wakePath] = engine.sleepPaths?.(flags) ?? [];
const state = { numRunning: 0, promptTokens: 0, generationTokens: 0, isAsleep: false };
/** Answers by the request's own id. */
const running = new Map();
const readyAtMs = Date.now() + Number(env.STAND_IN_READY_AFTER_MS ?? 0);
const tokenMs = Number(env.STAND_IN_TOKEN_MS ?? 1);

// As engines with one process per GPU do: a worker, in a group of its own.
if (env.STAND_IN_WORKER === "1") {
  const worker = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached: true, stdio: "ignore" });
  process.stdout.write(`worker ${worker.pid}\n`);
}

function answer(response, status, body, type = "application/json") {
  response.writeHead(status, { "content-type": type }).end(typeof body === "string" ? body : JSON.stringify(body));
}

function chat(response, { model, max_tokens: maxTokens = 4, rid }) {
  if (engine.isKeptAlive) state.isAsleep = false;
  if (state.isAsleep) return answer(response, 503, { error: { message: "asleep" } });
  if (engine.knowsModel?.(model, flags) === false)
    return answer(response, 404, { error: { message: `no model ${model}` } });
  state.numRunning += 1;
  state.promptTokens += 8;
  response.writeHead(200, { "content-type": "text/event-stream" });
  if (rid !== undefined) running.set(rid, response);
  let numTokens = 0;
  const timer = setInterval(() => {
    if (numTokens++ < maxTokens) {
      state.generationTokens += 1;
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "word " } }] })}\n\n`);
    } else response.end("data: [DONE]\n\n");
  }, tokenMs);
  response.once("close", () => {
    clearInterval(timer);
    running.delete(rid);
    state.numRunning -= 1;
  });
}

function rest(response, isAsleep) {
  state.isAsleep = isAsleep;
  answer(response, 200, {});
}

async function handle(request, response) {
  const { url } = request;
  let text = "";
  for await (const chunk of request) text += chunk;
  const isReady = Date.now() >= readyAtMs;
  if (url === (engine.healthPath ?? "/health")) return answer(response, isReady ? 200 : 503, "");
  if (url === (engine.metricsPath ?? "/metrics")) {
    const metrics = engine.metrics?.(state, flags);
    return metrics === undefined ? answer(response, 404, "") : answer(response, 200, metrics, "text/plain");
  }
  if (key !== undefined && request.headers.authorization !== `Bearer ${key}`) return answer(response, 401, {});
  const page = engine.pages?.(flags)[url];
  if (page !== undefined) return answer(response, 200, page);
  if (request.method !== "POST") return answer(response, 404, {});
  const body = text === "" ? {} : JSON.parse(text);
  if (url === "/v1/chat/completions") return chat(response, body);
  if (url === "/v1/completions") return answer(response, 200, { usage: { completion_tokens: body.max_tokens } });
  if (url === sleepPath) return rest(response, true);
  if (url === wakePath) return rest(response, false);
  if (url === engine.abortPath) {
    running
      .get(body.rid)
      ?.end('data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}\n\ndata: [DONE]\n\n');
    return answer(response, 200, {});
  }
  if (engine.isKeptAlive && url === "/api/generate" && body.model === "a-model")
    return rest(response, body.keep_alive === 0);
  answer(response, 404, {});
}

const server = createServer(handle);
server.listen(port, host);
process.on("SIGTERM", () => process.exit(0));
