// Payloads as people edit them: text that should be a JSON object, and JSON Merge Patch (RFC 7396).

export type Parsed = { ok: true; value: Record<string, unknown> } | { ok: false; why: string };

export function parseObject(text: string): Parsed {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { ok: false, why: `This is not JSON: ${(error as Error).message}.` };
  }
  if (!isObject(value)) return { ok: false, why: "This must be an object, like {\"name\": \"value\"}." };
  return { ok: true, value };
}

/** What the server makes of a payload and a patch: null removes a name, objects are merged, all else replaces. */
export function patched(payload: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Record<string, unknown> = isObject(payload) ? { ...payload } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = patched(result[name], value);
  }
  return result;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
