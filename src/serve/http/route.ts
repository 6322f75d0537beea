/** A path of the server with its handler, and who may call it when. */
import type { z } from "zod";
import { type ErrorDialect, OPENAI_ERRORS } from "../../core/error-body.js";
import type { Task } from "../../engine/api/stats.js";
import type { AppContext, ServeContext } from "./context.js";

type Handler = (c: AppContext, context: ServeContext) => Response | Promise<Response>;

/** The fields of a request's body, and those of them that are accepted and ignored. */
export interface BodyRules {
  readonly schema: z.ZodObject;
  readonly inert: ReadonlySet<string>;
}

/** A route, as the description of the API shows it. */
export interface DescribedRoute {
  readonly method: "GET" | "POST" | "DELETE";
  /** In Hono's syntax: parameters are `:name`, with a pattern where they may contain slashes. */
  readonly path: string;
  readonly summary: string;
  readonly isProtected: boolean;
  /** The rules of the request's body; absent for routes without one. */
  readonly rules?: BodyRules;
  /** The content type of the answer; JSON when absent. */
  readonly answerType?: string;
  /** The form of the answer, or of each of its events; absent where the written documentation has it. */
  readonly answer?: z.ZodType;
  /** The parameters of the query. */
  readonly query?: z.ZodObject;
}

export interface Route extends DescribedRoute {
  readonly handler: Handler;
  /** Needs an API key where keys are configured. */
  readonly isProtected: boolean;
  /** Answers while the server drains. */
  readonly isOpenWhileDraining: boolean;
  readonly dialect: ErrorDialect;
  /** The administrator's key opens it too. */
  readonly isForAdmin?: boolean;
  /** The field of the body that may hold long lists of token ids; absent: none may. */
  readonly idField?: string;
  /** The task that the model must be able to do. */
  readonly task?: Task;
}

/** Rules of the API's own paths. */
export const api = { isProtected: true, isOpenWhileDraining: false, dialect: OPENAI_ERRORS } as const;

/** Rules of paths that say something about the server. */
export const info = { isProtected: false, isOpenWhileDraining: true, dialect: OPENAI_ERRORS } as const;
