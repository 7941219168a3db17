"""The pages of the documentation as data: fenced blocks, headings and links of a Markdown file."""
import dataclasses
import pathlib
import re

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<info>[^`]*)$")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*([^)\s]+)(?:\s+\"[^\"]*\")?\s*\)")


@dataclasses.dataclass
class Block:
    """A fenced block: `first` is the index of its first line inside the fence in the lines of the page."""
    info: str
    lines: list
    first: int
    indent: str

    @property
    def language(self):
        return self.info.split()[0] if self.info.split() else ""

    @property
    def title(self):
        """The name of the file that the block shows, or None."""
        found = re.search(r'title="([^"]+)"', self.info)
        return found and found[1]


@dataclasses.dataclass
class Page:
    path: pathlib.Path
    lines: list
    blocks: list
    headings: list
    links: list

    @property
    def text(self):
        return "\n".join(self.lines)


def read_page(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    blocks, prose, open_block = [], [], None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if open_block is None and fence:
            open_block = Block(fence["info"].strip(), [], number + 1, fence["indent"])
            closing = fence["fence"]
        elif open_block is not None and line.strip() == closing:
            blocks.append(open_block)
            open_block = None
        elif open_block is not None:
            open_block.lines.append(line.removeprefix(open_block.indent))
        else:
            prose.append(line)
    if open_block is not None:
        raise ValueError(f"{path}:{open_block.first}: this block is never closed")
    headings = [found[1] for found in map(HEADING.match, prose) if found]
    links = LINK.findall(re.sub(r"(`+)(?!`).*?\1", "", "\n".join(prose), flags=re.DOTALL))
    return Page(path, lines, blocks, headings, links)


def read_pages(root):
    """README.md, CONTRIBUTING.md and every page under docs/, by path relative to the root of the tree."""
    paths = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    return {path.relative_to(root).as_posix(): read_page(path) for path in paths if path.exists()}
