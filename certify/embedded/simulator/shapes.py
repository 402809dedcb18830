"""Values that obey a JSON Schema: what a constrained decoder would let through."""

from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from certify.embedded.simulator.asking import RefusedError
from certify.records import Json

_DEEPEST = 40
_WORDS = "amber birch cedar delta ember fjord grove haven"


def instance_of(schema: Json) -> Json:
    """A value that the schema accepts, shown by validating it.

    Raises:
        RefusedError: the schema is broken, or uses what this constrained decoder does not know.
    """
    try:
        Draft202012Validator.check_schema(cast("Any", schema))
        value = _Maker(schema).make(schema, 0)
        valid = Draft202012Validator(cast("Any", schema)).is_valid(value)
    except RefusedError:
        raise
    except (SchemaError, RecursionError) as error:
        raise RefusedError(f"the schema is not valid: {str(error)[:200]}", param="response_format") from error
    except Exception as error:  # an unresolvable $ref raises what its resolver raises
        raise RefusedError(f"the schema cannot be compiled: {str(error)[:200]}", param="response_format") from error
    if not valid:
        raise RefusedError("the schema uses keywords that are not supported", param="response_format")
    return value


class _Maker:
    def __init__(self, root: Json) -> None:
        self._root = root

    def make(self, schema: Json, depth: int) -> Json:
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return {}
        for keyword in ("const", "default"):
            if keyword in schema:
                return schema[keyword]
        options = schema.get("enum") or schema.get("examples")
        if isinstance(options, list) and options:
            return options[0]
        branches = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(branches, list) and branches:
            # the last one, which in a recursive schema is mostly the one that ends it
            return self.make(branches[-1], depth + 1)
        if isinstance(schema.get("$ref"), str):
            return self.make(self._resolved(str(schema["$ref"])), depth + 1)
        return self._typed(schema, depth)

    def _resolved(self, reference: str) -> Json:
        value = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            if not part:
                continue
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(value, dict) or name not in value:
                raise RefusedError(
                    f"the schema refers to {reference[:80]}, which is not in it", param="response_format"
                )
            value = value[name]
        return value

    def _typed(self, schema: dict[str, Json], depth: int) -> Json:
        kinds = schema.get("type")
        match kinds[0] if isinstance(kinds, list) and kinds else kinds:
            case "integer" | "number" as kind:
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case "string":
                return _string(schema)
            case "array":
                return self._array(schema, depth)
            case _:
                return self._object(schema, depth)

    def _array(self, schema: dict[str, Json], depth: int) -> Json:
        first = schema.get("prefixItems")
        items: list[Json] = [self.make(item, depth + 1) for item in first] if isinstance(first, list) else []
        least = schema.get("minItems")
        while isinstance(least, int) and len(items) < min(least, 1000):
            items.append(self.make(schema.get("items", {"type": "integer"}), depth + 1))
        return items

    def _object(self, schema: dict[str, Json], depth: int) -> Json:
        properties, required = schema.get("properties"), schema.get("required")
        known = properties if isinstance(properties, dict) else {}
        wanted = [str(name) for name in required] if isinstance(required, list) else list(known)
        return {name: self.make(known.get(name, {"type": "string"}), depth + 1) for name in wanted}


def _number(schema: dict[str, Json], *, whole: bool) -> Json:
    low, over = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, step = schema.get("maximum"), schema.get("multipleOf")
    value: float = 1
    if isinstance(high, int | float):
        value = min(value, high)
    if isinstance(low, int | float):
        value = max(value, low)
    if isinstance(over, int | float):
        value = max(value, over + 1)
    if isinstance(step, int | float) and step:
        value = -(-value // step) * step
    return -int(-value // 1) if whole else value


def _string(schema: dict[str, Json]) -> str:
    least, most = schema.get("minLength"), schema.get("maxLength")
    text = "amber"
    if isinstance(least, int):
        while len(text) < min(least, 10_000):
            text += " " + _WORDS
    formats = {"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "email": "ann@example.org"}
    text = formats.get(str(schema.get("format")), text)
    return text[:most] if isinstance(most, int) else text
