// The fields of a task's payload, by its JSON Schema. What a form cannot show is edited as JSON.

type Schema = { $ref?: string; $defs?: Record<string, Schema>; type?: string | string[]; enum?: unknown[]; const?: unknown; anyOf?: Schema[]; oneOf?: Schema[]; items?: Schema; minItems?: number; minLength?: number; minimum?: number; exclusiveMinimum?: number; maximum?: number; format?: string; examples?: unknown[]; properties?: Record<string, Schema>; required?: string[]; default?: unknown; description?: string; title?: string };
export type PayloadField = { name: string; kind: "text" | "number" | "flag" | "choice" | "json"; choices: string[]; isRequired: boolean; hint: string };

/** Null: the schema is no plain object, or there is none. */
export function payloadFields(schema: unknown): PayloadField[] | null {
  const root = schema as Schema | null;
  const whole = root && resolved(root, root);
  if (!whole?.properties) return null;
  return Object.entries(whole.properties).map(([name, one]) => fieldOf(name, resolved(one, root!), whole.required?.includes(name) ?? false));
}

function resolved(schema: Schema, root: Schema): Schema {
  const name = schema.$ref?.split("/").pop();
  return name ? { ...schema, ...root.$defs?.[name] } : schema;
}

function fieldOf(name: string, schema: Schema, isRequired: boolean): PayloadField {
  const plain = schema.anyOf?.filter((one) => one.type !== "null");
  const shape = plain?.length === 1 ? { ...schema, ...plain[0]! } : schema;
  const hint = [schema.description, "default" in schema && `default: ${JSON.stringify(schema.default)}`].filter(Boolean).join("; ");
  return { name, kind: kindOf(shape), choices: (shape.enum ?? []).map(String), isRequired, hint };
}

function kindOf(schema: Schema): PayloadField["kind"] {
  if (schema.enum?.every((one) => typeof one === "string")) return "choice";
  switch (schema.type) {
    case "string": return "text";
    case "integer": case "number": return "number";
    case "boolean": return "flag";
    default: return "json";
  }
}

const DEEPEST = 8; // a schema that needs itself has no value

/** The smallest object that has what the schema requires, with some value for each. */
export function sampleOf(schema: unknown): Record<string, unknown> {
  const root = schema as Schema | null;
  const whole = root && resolved(root, root);
  return whole?.properties ? (sample({ ...whole, type: "object" }, root!, 0) as Record<string, unknown>) : {};
}

function sample(schema: Schema, root: Schema, depth: number): unknown {
  const one = resolved(schema, root);
  const given = [...(one.examples ?? []), ...("default" in one ? [one.default] : []), ...("const" in one ? [one.const] : []), ...(one.enum ?? [])];
  if (given.length || depth > DEEPEST) return given[0] ?? null;
  const either = one.anyOf ?? one.oneOf;
  if (either?.length) return sample(either.find((other) => other.type === "null") ?? either[0]!, root, depth + 1);
  switch (Array.isArray(one.type) ? one.type[0] : one.type) {
    case "integer": case "number": return Math.max(Math.min(1, one.maximum ?? 1), one.minimum ?? -Infinity, (one.exclusiveMinimum ?? -Infinity) + 1);
    case "boolean": return true;
    case "null": return null;
    case "array": return Array.from({ length: one.minItems ?? 0 }, () => sample(one.items ?? {}, root, depth + 1));
    case "object": return Object.fromEntries((one.required ?? []).map((name) => [name, sample(one.properties?.[name] ?? {}, root, depth + 1)]));
    default: return (FORMATS[one.format ?? ""] ?? "text").padEnd(one.minLength ?? 0, "x");
  }
}

const FORMATS: Record<string, string> = {
  "date-time": "2030-01-31T09:00:00Z", date: "2030-01-31", time: "09:00:00Z", duration: "PT1H", email: "ada@example.com", uri: "https://example.com", uuid: "00000000-0000-4000-8000-000000000000",
};

/** A value as a field shows it. */
export function shownValue(value: unknown, kind: PayloadField["kind"]): string {
  if (value === undefined) return "";
  return kind === "json" || typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** What was typed, as a value; undefined: leave it out. Text that is no number or JSON is passed on, and the server says so. */
export function typedValue(text: string, kind: PayloadField["kind"]): unknown {
  if (text === "" && kind !== "text") return undefined;
  if (kind === "flag") return text === "true";
  if (kind === "number") return Number.isFinite(Number(text)) ? Number(text) : text;
  if (kind !== "json") return text === "" ? undefined : text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
