"""Shows that each check of the documentation can fail: a made-up tree, and a stand-in for the program, with one fault after the other."""
import contextlib
import os
import pathlib
import sys
import tempfile

from commands import check_commands
from licences import check_licences
from links import check_links, check_reachable
from mentions import check_mentions
from pages import read_pages

PROGRAM = """#!/bin/sh
case "$*" in
  --help) printf 'Usage\\n\\nSubcommands:\\n  greet                Greets\\n\\nDocumentation: README.md\\n' ;;
  "greet --help") printf 'Options:\\n  -h,--help            Help\\n  --name TEXT          whom\\n\\nDocumentation: docs/two.md\\n' ;;
  greet*) printf 'hello\\none\\ntwo\\nbye\\n' ;;
  *) echo wrong; exit 2 ;;
esac
"""
README = "# One\n[two](docs/two.md#a-heading)\n"
TWO = """# Two
## A heading
`fusewise greet --name NAME` greets.
```console
$ fusewise greet
hello
...
bye
$ fusewise wrong
wrong
$ echo $?
2
```
"""
SOURCES = {
    "traces/SOURCE.md": "| from | licence |\n| --- | --- |\n| github a/b | MIT |\n\n| file | command |\n| --- | --- |\n| `KIND-1.json` | `make` |\n",
    "traces/LICENSES.md": "# Licences\n\n## MIT: a/b, c/d\n\na/b: Copyright A\n\nc/d: Copyright C\n",
    "traces/some-1.json": "{}\n",
    "tests/data/SOURCE.md": "| folder | from | licence |\n| --- | --- | --- |\n| `logs` | github c/d | MIT |\n",
    "tests/data/logs/some.log": "1\n",
}
FAULTS = {
    "a link to no file": ("README.md", "docs/two.md#", "docs/three.md#", "leads to no file"),
    "a link to no heading": ("README.md", "#a-heading", "#another", "leads to no heading"),
    "a link out of docs/": ("docs/two.md", "greets.", "greets [them](../README.md).", "leaves docs/"),
    "a page that nothing leads to": ("README.md", "[two](docs/two.md#a-heading)", "two", "no chain of links"),
    "another output": ("docs/two.md", "bye\n", "goodbye\n", "the output is not what the page shows"),
    "lines that are left out unmarked": ("docs/two.md", "...\n", "", "the output is not what the page shows"),
    "a command that fails unannounced": ("docs/two.md", "$ echo $?\n2\n", "", "exit code 2 of"),
    "an option that no page explains": ("docs/two.md", " --name NAME", "", "explains its option --name"),
    "an option that does not exist": ("docs/two.md", "$ fusewise greet\n", "$ fusewise greet --nmae x\n", "has no option --nmae"),
    "a command that no page names": ("docs/two.md", "fusewise greet", "FUSEWISE greet", "no page names the command `fusewise greet`"),
    "a help that names no page": ("fusewise", "Documentation: docs/two.md", "", "names no page of the documentation"),
    "a help that names a page that is not there": ("fusewise", "docs/two.md", "docs/three.md", "names docs/three.md, which is not there"),
    "a help that names another page": ("fusewise", "docs/two.md", "README.md", "names README.md, which does not mention it"),
    "a trace without an origin": ("traces/SOURCE.md", "`KIND-1.json`", "`KIND-2.json`", "no row says where some-1.json is from"),
    "a folder without an origin": ("tests/data/SOURCE.md", "`logs`", "`log`", "no row says where logs is from"),
    "an origin without a licence": ("traces/LICENSES.md", ", c/d", "", "c/d, expected the licence None"),
    "another licence": ("tests/data/SOURCE.md", "MIT", "BSD", "c/d, expected the licence MIT"),
    "an origin without a notice": ("traces/LICENSES.md", "a/b: Copyright A", "a/b", "no copyright notice of a/b"),
    "a block without an end": ("docs/two.md", "2\n```\n", "2\n", "is never closed"),
}


def complaints(root):
    program = root / "fusewise"
    try:
        pages = read_pages(root)
    except ValueError as error:
        return [str(error)]
    found = [*check_links(root, pages), *check_reachable(pages), *check_mentions(program, pages), *check_licences(root)]
    for page in pages.values():
        found += check_commands(root, program, page, update=False)
    return found


@contextlib.contextmanager
def tree():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "README.md").write_text(README)
        (root / "docs" / "two.md").write_text(TWO)
        (root / "fusewise").write_text(PROGRAM)
        for name, text in SOURCES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        os.chmod(root / "fusewise", 0o755)
        yield root


def main():
    wrong = []
    with tree() as root:
        wrong += [f"without a fault: {complaint}" for complaint in complaints(root)]
    for fault, (name, old, new, expected) in FAULTS.items():
        with tree() as root:
            text = (root / name).read_text()
            assert old in text, fault
            (root / name).write_text(text.replace(old, new))
            found = complaints(root)
            if not any(expected in complaint for complaint in found):
                wrong.append(f"{fault}: expected '{expected}', got {found}")
    with tree() as root:  # --update takes what the program prints, and keeps leaving out what the page leaves out
        page = root / "docs" / "two.md"
        page.write_text(TWO.replace("hello\n", "good day\n").replace("bye\n", "farewell\n"))
        for page_read in read_pages(root).values():
            list(check_commands(root, root / "fusewise", page_read, update=True))
        if page.read_text() != TWO:
            wrong.append(f"--update wrote:\n{page.read_text()}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
