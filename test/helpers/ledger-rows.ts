/** Rows of the ledger as a gateway writes them at a request's end. */
import type { AttemptRow, RequestRow } from "../../src/gateway/ledger/ledger-rows.js";

/** An answered attempt of the model `m`. */
export const attemptRow = (more: Partial<AttemptRow>): AttemptRow => ({
  instance: "m-0",
  engine: "vllm",
  model: "m",
  startMs: 0,
  firstByteMs: 100,
  totalMs: 1100,
  status: 200,
  outcome: "answered",
  counts: undefined,
  cost: undefined,
  price: "",
  ...more,
});

/** An answered chat request of no tenant, without attempts. */
export const requestRow = (more: Partial<RequestRow>): RequestRow => ({
  seq: 1,
  id: "r",
  beganMs: 0,
  tenant: "",
  team: "",
  key: "",
  path: "/v1/chat/completions",
  asked: "m",
  isStream: false,
  served: "",
  outcome: "answered",
  status: 200,
  error: "",
  firstByteMs: 100,
  totalMs: 1100,
  saved: 0n,
  savedBy: "",
  notes: "",
  maxTokens: undefined,
  numAnswers: 1,
  endUser: "",
  attempts: [],
  ...more,
});
