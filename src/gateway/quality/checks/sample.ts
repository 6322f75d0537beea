/** A request and its answer as checks see them, independent of the dialect. */

export interface SampleMessage {
  readonly role: string;
  readonly text: string;
}

export interface SampledAnswer {
  /** Without thoughts. */
  readonly text: string;
  /**
   * stop: the model was done; length: a limit cut the answer; refusal: the model or its provider withheld it; calls:
   * the model called tools.
   */
  readonly end: "stop" | "length" | "refusal" | "calls";
  /** The arguments of each call, as the model wrote them. */
  readonly calls: readonly string[];
  /** Natural logarithm of each token's probability; empty if the upstream gave none. */
  readonly logprobs: readonly number[];
}

export interface Sample {
  /** The prompt's messages in order; the system prompt is one. A text completion is one message of the user. */
  readonly messages: readonly SampleMessage[];
  /** Whether the prompt is texts only: no images, calls, results of tools, or token ids. */
  readonly isPlain: boolean;
  /** The requested form, as `response_format` of chats; undefined: none. */
  readonly format: unknown;
  readonly answer: SampledAnswer;
}
