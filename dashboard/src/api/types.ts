// Short names for what the API answers. schema.d.ts is made from its OpenAPI document by `make check`.
import type { components, paths } from "./schema";

type Schemas = components["schemas"];
export type { paths, Schemas };
export type Job = Schemas["Job"];
export type Run = Schemas["Run"];
export type WholeRun = Schemas["WholeRun"];
export type EndedRun = Schemas["EndedRun"];
export type Schedule = Schemas["Schedule"];
export type Session = Schemas["Session"];
export type Lookup = Schemas["Lookup"];
export type Explanation = Schemas["Explanation"];
export type Bulk = Schemas["Bulk"];
export type BulkOf = Schemas["BulkOf"];
export type DeadLetter = Schemas["DeadLetter"];
export type ErrorGroup = Schemas["ErrorGroup"];
export type Queue = Schemas["Queue"];
export type Worker = Schemas["Worker"];
export type Key = Schemas["Key"];
export type Process = Schemas["Process"];

export type Method = "get" | "post" | "put" | "patch" | "delete";
export type Operation<P extends keyof paths, M extends Method> = M extends keyof paths[P] ? NonNullable<paths[P][M]> : never;
export type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? Q : never;
export type PathOf<O> = O extends { parameters: { path: infer Q } } ? Q : never;
export type BodyOf<O> = O extends { requestBody?: { content: { "application/json": infer B } } } ? B : never;

type Success = 200 | 201 | 202;
type JsonOf<R> = R extends { content: { "application/json": infer T } } ? T : never;
export type AnswerOf<O> = O extends { responses: infer R } ? JsonOf<R[keyof R & Success]> : never;
/** Paths that have this method. */
export type PathsWith<M extends Method> = { [P in keyof paths]: Operation<P, M> extends never ? never : P }[keyof paths];
