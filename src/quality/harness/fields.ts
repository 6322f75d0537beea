/** Reads a task's field from a document: a column, a template, or a fixed value. */
import { TextTemplate } from "../../text/template/text-template.js";
import type { Document, Numbers } from "./documents.js";
import { pythonLiteral } from "./python-literal.js";
import { type TaskFile, taskError } from "./task-file.js";

/** A number is an index among the choices. */
export type Target = string | number | readonly (string | number)[];

const DIGITS = /^\d+$/;

/** Reads fields of documents; templates are parsed once. Errors name the key. */
export class FieldReader {
  readonly #templates = new Map<string, TextTemplate>();

  /** Numbers of all documents of the task. */
  readonly numbers: Numbers = new Map();

  /** @param path the task's file, for errors */
  constructor(
    readonly path: string,
    /** Whether the task has choices; a number then is an index among them. */
    readonly hasChoices: boolean,
  ) {}

  /** @param key the field's name, for errors */
  text(document: Document, field: string | number, key: string): string {
    const value = this.#value(document, field);
    if (!this.#isText(value)) return this.#refuse(key, "a text", value);
    // With choices, the harness reads a number as the index of one of several prompts.
    if (this.hasChoices && DIGITS.test(value)) return this.#refuse(key, "a text other than a number", value);
    return value;
  }

  target(document: Document, field: TaskFile["doc_to_target"]): Target {
    const isColumn = typeof field === "string" && Object.hasOwn(document, field);
    const value = Array.isArray(field) ? field : this.#value(document, field as string | number);
    if (isColumn || typeof value !== "string") {
      return this.#targetOf(value) ?? this.#refuse("doc_to_target", "a text, a number or a list of them", value);
    }
    if (this.hasChoices && DIGITS.test(value)) return Number(value);
    const list = /^\[[\s\S]*\]$/.test(value) ? this.#targetOf(pythonLiteral(value)?.value) : undefined;
    return list ?? value;
  }

  choices(document: Document, field: NonNullable<TaskFile["doc_to_choice"]>): readonly string[] {
    const value = this.#choiceValue(document, field);
    if (!Array.isArray(value) || value.length === 0) return this.#refuse("doc_to_choice", "a list of texts", value);
    return value.map((choice) =>
      this.#isText(choice) ? choice : this.#refuse("doc_to_choice", "a list of texts", value),
    );
  }

  #choiceValue(document: Document, field: NonNullable<TaskFile["doc_to_choice"]>): unknown {
    if (typeof field !== "string") return Array.isArray(field) ? field : Object.values(field);
    if (Object.hasOwn(document, field)) return document[field];
    const rendered = this.#render(document, field);
    return pythonLiteral(rendered)?.value ?? rendered;
  }

  #value(document: Document, field: string | number): unknown {
    if (typeof field === "number") return field;
    return Object.hasOwn(document, field) ? document[field] : this.#render(document, field);
  }

  #render(document: Document, source: string): string {
    let template = this.#templates.get(source);
    if (template === undefined) {
      template = new TextTemplate(source);
      this.#templates.set(source, template);
    }
    return template.render(document, this.numbers);
  }

  /** Marks stand for numbers, not texts. */
  #isText(value: unknown): value is string {
    return typeof value === "string" && !this.numbers.has(value);
  }

  /** In Python True is the number 1. */
  #targetOf(value: unknown): Target | undefined {
    if (typeof value === "boolean") return this.hasChoices ? Number(value) : value ? "True" : "False";
    if (typeof value === "number") return value;
    if (typeof value === "string") return this.numbers.get(value)?.text ?? value;
    const isList = Array.isArray(value) && value.every((each) => typeof each === "string" || typeof each === "number");
    return isList ? value : undefined;
  }

  #refuse(key: string, expected: string, got: unknown): never {
    throw taskError(this.path, key, expected, `${JSON.stringify(got)?.slice(0, 120)} for a document`);
  }
}
