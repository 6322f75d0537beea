/** A path of the server with its handler, and the conditions for calling it. */
import type { z } from "zod";
import { type ErrorDialect, OPENAI_ERRORS } from "../../core/error-body.js";
import type { Task } from "../../engine/api/stats.js";
import type { AppContext, ServeContext } from "./context.js";

type Handler = (c: AppContext, context: ServeContext) => Response | Promise<Response>;

/** The fields of a request's body, including accepted fields without effect. */
export interface BodyRules {
  readonly schema: z.ZodObject;
  readonly inert: ReadonlySet<string>;
}

/** A route, in the API description's form. */
export interface DescribedRoute {
  readonly method: "GET" | "POST" | "DELETE";
  /** In Hono's syntax: parameters are `:name`, with a pattern if they may contain slashes. */
  readonly path: string;
  readonly summary: string;
  readonly isProtected: boolean;
  /** The rules of the request's body; absent: no body. */
  readonly rules?: BodyRules;
  /** The content type of the answer; absent: JSON. */
  readonly answerType?: string;
  /** The form of the answer, or of each of its events; absent: the written documentation describes it. */
  readonly answer?: z.ZodType;
  /** The parameters of the query. */
  readonly query?: z.ZodObject;
}

export interface Route extends DescribedRoute {
  readonly handler: Handler;
  /** Needs an API key if keys are configured. */
  readonly isProtected: boolean;
  /** Answers while the server drains. */
  readonly isOpenWhileDraining: boolean;
  readonly dialect: ErrorDialect;
  /** The administrator's key opens it too. */
  readonly isForAdmin?: boolean;
  /** The field of the body that may hold long lists of token ids; absent: no field may. */
  readonly idField?: string;
  /** The task that the model must support. */
  readonly task?: Task;
}

/** Rules of the API's own paths. */
export const api = { isProtected: true, isOpenWhileDraining: false, dialect: OPENAI_ERRORS } as const;

/** Rules of paths about the server itself. */
export const info = { isProtected: false, isOpenWhileDraining: true, dialect: OPENAI_ERRORS } as const;
