"""Checks the documentation against the program: commands and their output, options, links, licences of data, and the page of file
formats.

    python3 tests/docs/check.py build/fusewise             # exit 1 and a line for each fault
    python3 tests/docs/check.py build/fusewise --update    # writes what commands print now into the pages
"""
import argparse
import pathlib
import re
import subprocess
import sys

from commands import check_commands
from licences import check_licences
from links import check_links, check_reachable
from mentions import check_mentions
from pages import read_pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES_OF_README = 150


def check_formats(program, update):
    """docs/file-formats.md is what docs/file_formats.py makes of the schemas."""
    page = ROOT / "docs" / "file-formats.md"
    made = subprocess.run([sys.executable, ROOT / "docs" / "file_formats.py", program], check=True, capture_output=True,
                          text=True).stdout
    if page.exists() and page.read_text(encoding="utf-8") == made:
        return
    if update:
        page.write_text(made, encoding="utf-8")
    else:
        yield "docs/file-formats.md: not what the schemas say; --update writes it again"


def check_length(pages):
    """README.md is one page; what is longer belongs under docs/."""
    lines = len(pages["README.md"].text.splitlines())
    if lines > LINES_OF_README:
        yield f"README.md: {lines} lines, expected at most {LINES_OF_README}"


def check_reproduced(pages):
    """README.md counts the figures of papers as docs/reproduction.md does, which a test compares with the program."""
    counts = []
    for name, words in (("README.md", r"(\d+) figures of .*? (\d+) are reproduced, (\d+) are not"),
                        ("docs/reproduction.md", r"(\d+) figures of .*? (\d+) reproduced, .*? (\d+) not reproduced")):
        found = re.search(words, pages[name].text, re.DOTALL)
        counts.append(found and found.groups())
    if None in counts or counts[0] != counts[1]:
        yield f"README.md: figures, reproduced, not: {counts[0]}, expected {counts[1]} as in docs/reproduction.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="the built program, such as build/fusewise")
    parser.add_argument("--update", action="store_true", help="accept the present output of commands and schemas")
    parser.add_argument("--only", metavar="PAGE", help="only the commands of this page, such as docs/tutorial.md")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())

    complaints = [] if arguments.only else list(check_formats(program, arguments.update))
    pages = read_pages(ROOT)
    for name, page in pages.items():
        if arguments.only in (None, name):
            complaints += check_commands(ROOT, program, page, arguments.update)
    if not arguments.only:
        pages = read_pages(ROOT)
        complaints += [*check_length(pages), *check_reproduced(pages), *check_links(ROOT, pages), *check_reachable(pages), *check_mentions(program, pages),
                       *check_licences(ROOT)]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
