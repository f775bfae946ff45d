"""The schemas of `docs/schema`, and which of their properties were printed. Requires jsonschema."""

import functools
import json
from pathlib import Path

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = {path.name: json.loads(path.read_text()) for path in sorted((ROOT / "docs" / "schema").glob("*.json"))}
REGISTRY = Registry().with_resources(
    (document["$id"], Resource.from_contents(document)) for document in DOCUMENTS.values()
)
# Of the verbs that require PyTorch: tests/python/ci checks them.
OF_TORCH = ("dry-run.json",)


class Seen:
    """The properties of the schemas that were printed."""

    def __init__(self):
        self.places = set()

    def check(self, verb, printed):
        """The printed JSON is what the verb's schema says."""
        uri = f"{DOCUMENTS[f'{verb}.json']['$id']}#"
        errors = list(validator(uri).iter_errors(printed))
        assert not errors, f"{verb}: {best(errors)}"
        self.visit(f"{verb}.json", "", printed)

    def visit(self, name, pointer, value):
        """Notes the properties of the value, which the schema at the pointer accepts."""
        schema = at(name, pointer)
        if "$ref" in schema:
            other, _, target = schema["$ref"].partition("#")
            self.visit(other or name, target, value)
        for kind in ("oneOf", "anyOf"):
            for number in range(len(schema.get(kind, []))):
                branch = f"{pointer}/{kind}/{number}"
                if validator(f"{DOCUMENTS[name]['$id']}#{branch}").is_valid(value):
                    self.places.add((name, branch))
                    self.visit(name, branch, value)
        if isinstance(value, dict):
            known = schema.get("properties", {})
            for key, one in value.items():
                if key in known:
                    self.places.add((name, f"{pointer}/properties/{key}"))
                    self.visit(name, f"{pointer}/properties/{key}", one)
                elif isinstance(schema.get("additionalProperties"), dict):
                    self.visit(name, f"{pointer}/additionalProperties", one)
        if isinstance(value, list):
            first = len(schema.get("prefixItems", []))
            for number, one in enumerate(value):
                if number < first:
                    self.visit(name, f"{pointer}/prefixItems/{number}", one)
                elif "items" in schema:
                    self.visit(name, f"{pointer}/items", one)


@functools.cache
def validator(uri):
    return Draft202012Validator({"$ref": uri}, registry=REGISTRY)


@functools.cache
def at(name, pointer):
    schema = DOCUMENTS[name]
    for part in pointer.split("/")[1:]:
        schema = schema[int(part)] if isinstance(schema, list) else schema[part]
    return schema


def best(errors):
    """The deepest of the errors: of alternatives, that of the one that fits most."""

    def deepest(error):
        return max(map(deepest, error.context), key=lambda one: len(one.absolute_path), default=error)

    error = max(map(deepest, errors), key=lambda one: len(one.absolute_path))
    return f"{error.json_path}: {error.message[:300]}"


def properties(name, pointer="", schema=None):
    """The pointers of all properties in a document."""
    schema = DOCUMENTS[name] if schema is None else schema
    if isinstance(schema, dict):
        for key, one in schema.items():
            if key == "properties":
                yield from (f"{pointer}/properties/{field}" for field in one)
            yield from properties(name, f"{pointer}/{key}", one)
    elif isinstance(schema, list):
        for number, one in enumerate(schema):
            yield from properties(name, f"{pointer}/{number}", one)
