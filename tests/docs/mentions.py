"""Checks that pages and --help agree: every command and option is explained somewhere, none is made up, and the --help of
every command names pages that explain it."""
import re
import subprocess

from commands import split

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def help_of(program, command=()):
    return subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True).stdout


def subcommands(text):
    """The names under `Subcommands:`."""
    _, _, below = text.partition("\nSubcommands:\n")
    return re.findall(r"^  ([a-z-]+) {2,}\S", below, flags=re.MULTILINE)


def options(text):
    """The options that begin a line of the help, each as the set of its long names."""
    lines = re.findall(r"^ +((?:-\w,)?--[\w-]+(?:,--[\w-]+)*)", text, flags=re.MULTILINE)
    return [set(OPTION.findall(line.replace(",", " "))) for line in lines]


def all_commands(program, command=()):
    """Every command with its options, such as ("netlab", "up")."""
    text = help_of(program, command)
    yield command, options(text)
    for name in subcommands(text):
        yield from all_commands(program, (*command, name))


def named_pages(text):
    """The pages that a help names."""
    found = re.search(r"^Documentation: (.+)$", text, flags=re.MULTILINE)
    return found[1].split(", ") if found else []


def check_named_pages(name, named, pages):
    if not named:
        yield f"`{name} --help` names no page of the documentation"
    for page in named:
        if page not in pages:
            yield f"`{name} --help` names {page}, which is not there"
        elif name != "fusewise" and not re.search(re.escape(name) + r"(?![\w-])", pages[page].text):
            yield f"`{name} --help` names {page}, which does not mention it"


def explained(page):
    """The text of a page without what commands print."""
    text = page.text
    for block in page.blocks:
        if block.language == "console":
            for _, output in split(block.lines):
                text = text.replace("\n" + "\n".join(output) + "\n", "\n", 1) if output else text
    return text


def check_mentions(program, pages):
    """An option counts as explained on a page that also names its command as `fusewise COMMAND`."""
    texts = {name: explained(page) for name, page in pages.items() if name != "CONTRIBUTING.md"}
    known = {}
    for command, found in all_commands(program):
        name = " ".join(("fusewise", *command))
        yield from check_named_pages(name, named_pages(help_of(program, command)), pages)
        known[command] = set().union(*found) | {"--help"}
        about = [text for text in texts.values() if re.search(re.escape(name) + r"(?![\w-])", text)]
        if not about:
            yield f"no page names the command `{name}`"
            continue
        named = set().union(*(OPTION.findall(text) for text in about))
        for names in found:
            if not names & named and names != {"--help"}:
                yield f"no page that names `{name}` explains its option {'/'.join(sorted(names))}"
    for name, page in pages.items():
        yield from check_command_lines(name, page, known)


def check_command_lines(name, page, known):
    """Command lines in the blocks of a page, run or not, have only options that the program has."""
    for block in page.blocks:
        text = "\n".join(block.lines).replace("\\\n", " ")
        for line in re.findall(r"(?<![\w./-])fusewise +([^\n|;#&]*)", text):
            words = tuple(re.findall(r"[^\s]+", line))
            command = next((words[:length] for length in (2, 1) if words[:length] in known), None)
            if command is None:
                continue
            for option in OPTION.findall(line):
                if option not in known[command]:
                    yield f"{name}:{block.first}: `fusewise {' '.join(command)}` has no option {option}"
