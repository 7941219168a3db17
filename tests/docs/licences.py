"""Checks that every data file says where it is from, and that the licence and the notice of each origin are there."""
import re

ORIGIN = re.compile(r"github ([\w.-]+/[\w.-]+)")


def rows(text):
    """The cells of all rows of all tables."""
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def names(text):
    """What stands in backticks in the first cell of a row, as patterns: words in capitals stand for any."""
    found = [name for row in rows(text) for name in re.findall(r"`([^`]+)`", row[0])]
    return [re.compile(re.sub(r"\b[A-Z]{2,}\b", "[a-z0-9-]+", re.escape(name).replace(r"\-", "-"))) for name in found]


def licences(text):
    """The licence of each origin, and whether its section has its notice."""
    out = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading = section.splitlines()[0]
        licence, _, origins = heading.partition(": ")
        for origin in origins.split(", "):
            notice = f"\n{origin}: Copyright" if "," in origins else "Copyright"
            out[origin] = (licence, notice in section)
    return out


def check_files(root, folder, parts):
    """Every file of a folder, or with `parts` every folder in it, is in a table of its SOURCE.md."""
    known = names((root / folder / "SOURCE.md").read_text(encoding="utf-8"))
    files = [path.relative_to(root / folder) for path in (root / folder).rglob("*") if path.is_file() and path.suffix != ".md"]
    for name in sorted({path.parts[0] if parts else path.as_posix() for path in files}):
        if not any(each.fullmatch(name) for each in known):
            yield f"{folder}/SOURCE.md: no row says where {name} is from"


def check_licences(root):
    yield from check_files(root, "traces", parts=False)
    yield from check_files(root, "tests/data", parts=True)
    known = licences((root / "traces" / "LICENSES.md").read_text(encoding="utf-8"))
    for source in ("traces/SOURCE.md", "tests/data/SOURCE.md"):
        for row in rows((root / source).read_text(encoding="utf-8")):
            for origin in ORIGIN.findall(" ".join(row)):
                licence, has_notice = known.get(origin, (None, False))
                if licence not in row:
                    yield f"{source}: {origin}, expected the licence {licence} of traces/LICENSES.md in its row"
                elif not has_notice:
                    yield f"traces/LICENSES.md: no copyright notice of {origin}"
