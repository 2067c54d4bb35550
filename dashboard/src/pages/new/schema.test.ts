import assert from "node:assert/strict";
import { test } from "node:test";
import { payloadFields, typedValue } from "./schema";

const SCHEMA = {
  $ref: "#/$defs/Payload",
  $defs: {
    Payload: {
      type: "object",
      properties: { region: { enum: ["eu", "us"] }, dry: { type: "boolean", default: false }, limit: { anyOf: [{ type: "integer" }, { type: "null" }], default: null }, tags: { type: "array" }, note: { type: "string" }, url: { anyOf: [{ type: "string" }, { $ref: "#/$defs/Secret" }] } },
      required: ["region"],
    },
  },
};

test("each field has the input that fits it", () => {
  const fields = payloadFields(SCHEMA)!;
  assert.deepEqual(fields.map((one) => [one.name, one.kind, one.isRequired]), [["region", "choice", true], ["dry", "flag", false], ["limit", "number", false], ["tags", "json", false], ["note", "text", false], ["url", "json", false]]);
  assert.equal(fields[1]!.hint, "default: false");
});

test("without a schema the payload is JSON", () => assert.equal(payloadFields(null), null));

test("what was typed is a value of its kind", () => {
  assert.deepEqual([typedValue("3", "number"), typedValue("x", "number"), typedValue("", "number"), typedValue("true", "flag"), typedValue('["a"]', "json"), typedValue("a", "json"), typedValue("3", "text")], [3, "x", undefined, true, ["a"], "a", "3"]);
});
