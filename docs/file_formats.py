#!/usr/bin/env python3
"""Prints docs/file-formats.md: a table of keys for each file format, made from the JSON Schemas that the program prints.

    python3 docs/file_formats.py build/fusewise > docs/file-formats.md
"""
import json
import re
import subprocess
import sys

INTRODUCTION = """\
<!-- Made by docs/file_formats.py from the JSON Schemas; tests/docs/check.py --update writes it again. Do not edit. -->
# File formats

Every file is JSON with the keys `format` and `version`. `fusewise schema NAME` prints the JSON Schema of a format, from
which this page is made; editors and validators understand it. These rules hold for all formats:

* The unit is in the key: `_us` is microseconds, `_bytes` bytes, `_gbps` 10^9 bits per second.
* A path is relative to the file that it stands in. Where a path may stand, the object itself may stand instead.
* An unknown key, a key that stands twice, and `NaN` are errors, which name the file and the place ([errors](errors.md)).
* Keys without *yes* under *required* may be left out. A default follows where there is one.

[Measuring](measuring.md), [profiling](profiling.md), [schedules](schedules.md), [compression](compression.md) and
[clusters](clusters.md) explain what the keys do.
"""
WRITTEN_BY_PEOPLE = ["profile", "network", "scenario", "model", "compressors", "plan", "setup", "suite", "paper"]


def schema(program, name):
    return without_booleans(json.loads(subprocess.run([program, "schema", name], check=True, capture_output=True,
                                                      text=True).stdout))


def without_booleans(node):
    """The schema `true`, which stands for anything, becomes an empty object where a key may have it."""
    if isinstance(node, list):
        return [without_booleans(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {key: {name: {} if part is True else without_booleans(part) for name, part in value.items()}
            if key == "properties" else without_booleans(value) for key, value in node.items()}


def format_names(program):
    text = subprocess.run([program, "schema", "--help"], check=True, capture_output=True, text=True).stdout
    return re.search(r"one of ([\w, -]+)$", text, flags=re.MULTILINE)[1].split(", ")


class Renderer:
    """Renders one schema after the other, and remembers which shared definitions they refer to."""

    def __init__(self, formats):
        self.formats = formats
        self.wanted = []
        self.root = None

    def resolve(self, reference):
        node = self.root
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        return node

    def is_large(self, node):
        """Whether a definition needs a section of its own instead of a few words."""
        node = self.without_reference(node)
        alternatives = node.get("oneOf", node.get("anyOf", []))
        return "properties" in node or any(self.is_large(part) for part in alternatives if isinstance(part, dict))

    def without_reference(self, node):
        while "$ref" in node:
            node = self.resolve(node["$ref"])
        return node

    def type_of(self, node):
        """The type in a few words."""
        if "$ref" in node:
            name = node["$ref"].split("/")[-1]
            target = self.resolve(node["$ref"])
            if name in self.formats:
                return f"[{name}](#{name})"
            if self.is_large(target):
                if node["$ref"] not in [reference for reference, _ in self.wanted]:
                    self.wanted.append((node["$ref"], self.root))
                return f"[{title_of(name)}](#{anchor_of(name)})"
            return self.type_of(target)
        if "const" in node:
            return f"`{json.dumps(node['const'])}`"
        if "enum" in node:
            return "one of " + ", ".join(f"`{value}`" for value in node["enum"])
        alternatives = node.get("oneOf")
        if alternatives and "properties" not in node:
            return ", or ".join(dict.fromkeys(self.type_of(part) for part in alternatives))
        kind = node.get("type", "any value")
        if isinstance(kind, list):
            return " or ".join(kind)
        if kind == "array":
            if "prefixItems" in node:
                return "[" + ", ".join(self.type_of(part) for part in node["prefixItems"]) + "]"
            return f"list of {plural(self.type_of(node['items']))}" if "items" in node else "list"
        return kind + range_of(node) if kind in ("integer", "number") else kind

    def description_of(self, node):
        target = node
        texts = []
        while True:
            texts.append(target.get("description", ""))
            if "$ref" not in target or self.is_large(target):
                break
            target = self.resolve(target["$ref"])
        if target.get("type") == "array" and isinstance(target.get("items"), dict):
            texts.append(target["items"].get("description", "") if not self.is_large(target["items"]) else "")
        text = next((text for text in texts if text), "")
        default = node.get("default", target.get("default"))
        if default is not None:
            text += ("; " if text else "") + f"default `{json.dumps(default)}`"
        return text.replace("|", "\\|")

    def rows(self, node, prefix=""):
        """Rows of the table of an object: its keys, and under them those of the objects that they hold."""
        for key, value in node.get("properties", {}).items():
            required = "yes" if key in node.get("required", []) else ""
            yield f"| `{prefix}{key}` | {required} | {self.type_of(value)} | {self.description_of(value)} |"
            yield from self.inner_rows(value, f"{prefix}{key}")

    def inner_rows(self, node, path):
        if "$ref" in node and (self.is_large(node) or node["$ref"].split("/")[-1] in self.formats):
            return
        node = self.without_reference(node)
        if "properties" in node:
            yield from self.rows(node, path + ".")
        elif node.get("type") == "array" and isinstance(node.get("items"), dict):
            yield from self.inner_rows(node["items"], path + "[]")
        elif isinstance(node.get("additionalProperties"), dict):
            yield from self.inner_rows(node["additionalProperties"], path + ".NAME")
        objects = [part for part in node.get("oneOf", []) if "properties" in part]
        for part in objects:
            if part is not objects[0]:
                yield f"| *or*{self.distinction(part)} | | | |"
            yield from self.inner_rows(part, path)

    def table(self, node):
        yield "| key | required | type | meaning |"
        yield "| --- | --- | --- | --- |"
        yield from self.rows(node)

    def section(self, node):
        """The text below the heading of a format or of a definition."""
        node = self.without_reference(node)
        if node.get("description"):
            yield sentence(node["description"])
            yield ""
        if "properties" in node:
            yield from self.table(node)
            return
        yield "One of:"
        yield ""
        plain = [part for part in node["oneOf"] if "properties" not in part]
        for part in plain:
            yield f"* {self.type_of(part)}"
        for part in node["oneOf"]:
            if "properties" in part:
                yield ""
                yield f"An object{self.distinction(part)}:"
                yield ""
                yield from self.table(part)

    def distinction(self, node):
        for key in ("kind", "name", "algorithm"):
            value = node.get("properties", {}).get(key, {})
            if "const" in value:
                return f" with `{key}` `{json.dumps(value['const'])}`"
        return ""


def plural(kind):
    """Of the kinds that stand in lists: `objects`, `numbers from 0 to 1`, and links as they are."""
    return re.sub(r"^(object|string|integer|number|list)\b", r"\1s", kind)


def number(value):
    """1000000 as 1,000,000, and powers of ten from 10^7 on as such."""
    power = len(str(value)) - 1
    if isinstance(value, float) and value.is_integer():
        return number(int(value))
    if isinstance(value, int) and power >= 7 and value == 10 ** power:
        return f"10^{power}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def range_of(node):
    low, high = node.get("minimum"), node.get("maximum")
    if "exclusiveMinimum" in node:
        return f" above {number(node['exclusiveMinimum'])}" + (f", at most {number(high)}" if high is not None else "")
    if low is not None and high is not None:
        return f" from {number(low)} to {number(high)}"
    return f" of at least {number(low)}" if low is not None else ""


def title_of(name):
    return name.replace("_", " ")


def anchor_of(name):
    return title_of(name).replace(" ", "-")


def sentence(text):
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def page(program):
    names = format_names(program)
    ordered = [*[name for name in WRITTEN_BY_PEOPLE if name in names],
               *[name for name in names if name not in WRITTEN_BY_PEOPLE]]
    renderer = Renderer(names)
    yield INTRODUCTION
    for name in ordered:
        if name == ordered[0]:
            yield "## Files that you write or measure\n"
        elif name not in WRITTEN_BY_PEOPLE and ordered[ordered.index(name) - 1] in WRITTEN_BY_PEOPLE:
            yield "## Files that the program writes\n"
        renderer.root = schema(program, name)
        yield f"### {name}\n"
        yield sentence(renderer.root["title"]) + "\n"
        yield from renderer.section(renderer.root)
        yield ""
    yield "## Parts that several formats share\n"
    done = {}
    for reference, root in renderer.wanted:  # grows while it is read
        name = reference.split("/")[-1]
        renderer.root = root
        if name in done:
            assert done[name] == renderer.resolve(reference), f"two formats define {name} differently"
            continue
        done[name] = renderer.resolve(reference)
        yield f"### {title_of(name)}\n"
        yield from renderer.section(renderer.resolve(reference))
        yield ""


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: file_formats.py FUSEWISE")
    print("\n".join(page(sys.argv[1])).rstrip())


if __name__ == "__main__":
    main()
