/** Answers with a job's results: complete, or as server-sent events. Endpoints only write their JSON. */
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { corsHeaders } from "../../core/cors.js";
import { MillraceError } from "../../core/errors.js";
import { type AnswerPart, appendPart } from "../../text/answer/answer-part.js";
import type { Deadline } from "../generation/deadline.js";
import type { GenerationEnd, GenerationRequest, GenerationUpdate, ScoredToken } from "../generation/generation.js";
import { Job, type JobTotals } from "../generation/job.js";
import type { AppContext, ServeContext } from "./context.js";
import { onDisconnect } from "./disconnect.js";
import { logFailure } from "./error-response.js";
import { SseStream } from "./sse.js";

/** One choice of a complete answer. */
export interface ChoiceResult {
  readonly text: string;
  /** The text split into parts; undefined for endpoints without parts. */
  readonly parts: readonly AnswerPart[] | undefined;
  readonly scored: readonly ScoredToken[];
  /** The scored tokens whose texts form the content. */
  readonly said: readonly ScoredToken[];
  /** Empty unless the request asked for them. */
  readonly tokenIds: readonly number[];
  readonly promptLogprobs: GenerationUpdate["promptLogprobs"];
  readonly pooled: GenerationUpdate["pooled"];
  readonly end: GenerationEnd;
}

/** The events, or lines, of an endpoint's stream. Every returned string holds complete ones, or is empty. */
export interface StreamFrames {
  onUpdate(index: number, update: GenerationUpdate): string;
  onDone(totals: JobTotals): string;
  onError(error: MillraceError): string;
  /** Replaces the comment in a silent stream; empty: nothing is sent. */
  readonly heartbeat?: string;
  /** Absent: server-sent events. */
  readonly contentType?: string;
}

function clientClosed(): MillraceError {
  return new MillraceError("client_closed", "expected the client to wait for its answer, got a closed connection");
}

/**
 * Waits for every choice. Rejects with the first failure, or with client_closed when the client disconnects.
 * @param onUpdate also called with each update and the index of its choice
 */
export function collectResults(
  c: AppContext,
  context: ServeContext,
  requests: readonly GenerationRequest[],
  deadline: Deadline,
  onUpdate: (update: GenerationUpdate, index: number) => void = () => {},
): Promise<{ readonly results: readonly ChoiceResult[]; readonly totals: JobTotals }> {
  return new Promise((resolve, reject) => {
    const partial = requests.map(() => ({
      text: "",
      parts: undefined as AnswerPart[] | undefined,
      scored: [] as ScoredToken[],
      said: [] as ScoredToken[],
      tokenIds: [] as number[],
      promptLogprobs: undefined as GenerationUpdate["promptLogprobs"],
      pooled: undefined as GenerationUpdate["pooled"],
      end: { reason: "stop", stopReason: null } as GenerationEnd,
    }));
    let endWatch = () => {};
    const job = new Job(
      context,
      requests,
      {
        onUpdate: (index, update) => {
          onUpdate(update, index);
          const result = partial[index]!;
          result.text += update.text;
          if (update.parts !== undefined) {
            result.parts ??= [];
            for (const part of update.parts) appendPart(result.parts, part);
          }
          for (const token of update.scored) result.scored.push(token);
          for (const token of update.said) result.said.push(token);
          for (const id of update.tokenIds) result.tokenIds.push(id);
          if (update.promptLogprobs !== undefined) result.promptLogprobs = update.promptLogprobs;
          if (update.pooled !== undefined) result.pooled = update.pooled;
          if (update.end !== undefined) result.end = update.end;
        },
        onDone: (totals) => {
          endWatch();
          resolve({ results: partial, totals });
        },
        onError: (error) => {
          endWatch();
          reject(error);
        },
      },
      deadline,
      c.get("note"),
    );
    job.start();
    endWatch = onDisconnect(c, () => {
      job.abort();
      reject(clientClosed());
    });
  });
}

export const UNENFORCED_HEADER = "X-Millrace-Unenforced";

function unenforcedHeader(c: AppContext): Readonly<Record<string, string>> {
  const names = c.get("unenforced");
  return names === undefined ? {} : { [UNENFORCED_HEADER]: names };
}

/** Streams a job. A failure before the first text becomes an ordinary error answer. */
export function streamResults(
  c: AppContext,
  context: ServeContext,
  requests: readonly GenerationRequest[],
  deadline: Deadline,
  frames: StreamFrames,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const outgoing = c.env?.outgoing;
    if (outgoing === undefined || !("req" in outgoing)) {
      throw new MillraceError("internal_error", "expected a Node HTTP/1 response to stream to, got none");
    }
    const requestId = c.get("requestId");
    let endWatch = () => {};
    // Hidden reasoning counts as progress and keeps the stream alive. A hung engine makes none, so the stream turns
    // silent and proxies notice.
    let [numUpdates, numSeen] = [0, 0];
    const isDue = () => {
      const hasGoneOn = numUpdates !== numSeen;
      numSeen = numUpdates;
      return hasGoneOn;
    };
    const fail = (error: MillraceError) => {
      endWatch();
      if (!stream.isOpen) return reject(error);
      logFailure(context.logger, error, requestId, c.get("route"));
      stream.send(frames.onError(error));
      stream.end();
      resolve(RESPONSE_ALREADY_SENT);
    };
    const job = new Job(
      context,
      requests,
      {
        onUpdate: (index, update) => {
          numUpdates++;
          stream.send(frames.onUpdate(index, update));
        },
        onDone: (totals) => {
          endWatch();
          stream.send(frames.onDone(totals));
          stream.end();
          resolve(RESPONSE_ALREADY_SENT);
        },
        onError: fail,
      },
      deadline,
      c.get("note"),
    );
    const stream = new SseStream(outgoing, {
      headers: {
        "X-Request-Id": requestId,
        [c.get("dialect").requestIdHeader]: requestId,
        ...corsHeaders(c.req.header("Origin"), context.pages),
        ...unenforcedHeader(c),
      },
      contentType: frames.contentType,
      maxBufferedBytes: context.limits.maxBufferedBytes,
      heartbeat: { isDue, ...(frames.heartbeat === undefined ? {} : { text: frames.heartbeat }) },
      onOverflow: (bufferedBytes) => {
        job.abort();
        endWatch();
        const fields = { requestId, path: c.get("route"), code: "client_closed", bufferedBytes };
        context.logger.warn(fields, "disconnected a client that reads more slowly than its answer is generated");
        resolve(RESPONSE_ALREADY_SENT);
      },
    });
    job.start();
    endWatch = onDisconnect(c, () => {
      job.abort();
      reject(clientClosed());
    });
  });
}
