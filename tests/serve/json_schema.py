"""Compares values with the schemas of ragmeter's API."""

from jsonschema import Draft202012Validator


def wrong(value, schema, schemas):
    """Return the errors of a value, one sentence each.

    Args:
        value: As returned by `json.loads`.
        schema: Its schema.
        schemas: Targets of references, by name.
    """
    whole = {**schema, "components": {"schemas": schemas}}
    Draft202012Validator.check_schema(whole)
    return [f"{one.json_path}: {one.message}" for one in Draft202012Validator(whole).iter_errors(value)]
