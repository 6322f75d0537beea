import { expect, test } from "vitest";
import { parseMetrics, serverMetrics } from "./prometheus.js";

const BEFORE = `# HELP vllm:num_preemptions_total x
vllm:num_preemptions_total{model_name="a {b} c"} 2
vllm:spec_decode_num_drafts_total 10
vllm:spec_decode_num_draft_tokens_total 40
vllm:spec_decode_num_accepted_tokens_total 20
vllm:request_queue_time_seconds_bucket{le="+Inf"} 4
vllm:request_queue_time_seconds_sum 1
vllm:request_queue_time_seconds_count 4
`;
const AFTER = `vllm:num_preemptions_total{engine="0"} 2
vllm:num_preemptions_total{engine="1"} 3 1700000000
vllm:spec_decode_num_drafts_total 20
vllm:spec_decode_num_draft_tokens_total 80
vllm:spec_decode_num_accepted_tokens_total 50
vllm:request_queue_time_seconds_sum 1.5
vllm:request_queue_time_seconds_count 6
`;

test("counters are reported as differences, summed over labels; missing metrics are absent", () => {
  const samples = [0.2, 0.9, 0.4].map((usage, i) =>
    parseMetrics(`vllm:kv_cache_usage_perc ${usage}\nvllm:num_requests_running ${5 - i}\n`),
  );
  expect(serverMetrics(parseMetrics(BEFORE), parseMetrics(AFTER), samples)).toEqual({
    queueMs: 250,
    acceptance: 0.75,
    acceptedLength: 4,
    rejected: 10,
    preemptions: 3,
    medianKvUsage: 0.4,
    maxKvUsage: 0.9,
    cacheHitShare: undefined,
    maxRunning: 5,
  });
});

test("for a fleet, memory in use is a mean over instances, and running requests are a sum", () => {
  const sample = parseMetrics(
    ["a", "b"]
      .map(
        (id, i) =>
          `vllm:kv_cache_usage_perc{instance="${id}"} ${0.9 - i / 2}\nvllm:num_requests_running{instance="${id}"} 3\n`,
      )
      .join(""),
  );
  expect(serverMetrics(sample, sample, [sample])).toMatchObject({ maxKvUsage: 0.65, maxRunning: 6 });
});

test("shares are undefined without events", () => {
  const same = parseMetrics(AFTER);
  expect(serverMetrics(same, same, [])).toMatchObject({ acceptance: undefined, queueMs: undefined, preemptions: 0 });
});

test("the share of prompts is of the steps' time, and of requests' times where the server does not tell that", () => {
  const requests = "vllm:request_prefill_time_seconds_sum 1\nvllm:request_decode_time_seconds_sum 3\n";
  const steps = "millrace:engine_prompt_seconds_total 6\nmillrace:engine_step_seconds_total 10\n";
  const shareIn = (text: string) => serverMetrics(parseMetrics(""), parseMetrics(text), []).prefillShare;
  expect([shareIn(requests), shareIn(requests + steps)]).toEqual([0.25, 0.6]);
});
