"""Compares a value with a JSON schema, with the keywords of ragmeter's API; rejects unknown keywords."""

TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
    "null": type(None),
}  # fmt: skip
KNOWN = {
    "type", "description", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems",
    "maxItems", "anyOf", "$ref", "enum", "const", "minimum", "maximum", "default", "title",
}  # fmt: skip


def wrong(value, schema, schemas, where="value"):
    """Return the errors of a value, one sentence each.

    Args:
        value: As returned by `json.loads`.
        schema: Its schema.
        schemas: Targets of references, by name.
        where: The value's place, for the sentences.
    """
    assert set(schema) <= KNOWN, f"{where}: {set(schema) - KNOWN}"
    if "$ref" in schema:
        return wrong(value, schemas[schema["$ref"].rpartition("/")[2]], schemas, where)
    if "anyOf" in schema:
        found = [wrong(value, one, schemas, where) for one in schema["anyOf"]]
        return [] if [] in found else max(found, key=len)
    said = []
    if "type" in schema:
        mistaken = isinstance(value, bool) and schema["type"] in ("integer", "number")
        if mistaken or not isinstance(value, TYPES[schema["type"]]):
            return [f"{where} is {type(value).__name__}, not {schema['type']}"]
    if "enum" in schema and value not in schema["enum"]:
        said.append(f"{where} is none of {schema['enum']}")
    if "const" in schema and value != schema["const"]:
        said.append(f"{where} is not {schema['const']}")
    if not schema.get("minimum", float("-inf")) <= (value if "minimum" in schema else 0):
        said.append(f"{where} is too small")
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        said += [f"{where}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, one in value.items():
            if name in properties:
                said += wrong(one, properties[name], schemas, f"{where}.{name}")
            elif more is False:
                said.append(f"{where}.{name} is not described")
            elif isinstance(more, dict):
                said += wrong(one, more, schemas, f"{where}.{name}")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            said.append(f"{where} has {len(value)} items")
        kinds = [*schema.get("prefixItems", ())]
        kinds += [schema.get("items", {})] * (len(value) - len(kinds))
        for place, (one, kind) in enumerate(zip(value, kinds, strict=True)):
            said += wrong(one, kind, schemas, f"{where}[{place}]")
    return said
