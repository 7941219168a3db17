"""Runs the commands of the documentation and compares what they print with what the pages show.

A block of type `console` holds lines `$ command` (a line that ends in a backslash continues on the next), each followed
by all that the command prints. A line `...` stands for lines that are left out. A block whose first line is
`# not run by the tests: REASON` is not run. A block with `title="NAME"` is first written to the file NAME.
The commands of a page run one after the other in one empty folder, which holds links to the data of the project,
except for WITHOUT_DATA.
"""
import difflib
import os
import re
import subprocess
import tempfile

DATA = ["scenarios", "traces", "models", "tests", "validate"]
WITHOUT_DATA = ["README.md", "docs/tutorial.md"]  # what a new user does needs the program alone, in any folder
NOT_RUN = re.compile(r"^# not run by the tests: \S")
SECONDS = 600  # of a block; only a hang takes that long


def check_commands(root, program, page, update):
    """Yields complaints; with `update`, writes what the commands print now into the page instead."""
    blocks = [block for block in page.blocks if block.title or block.language == "console"]
    if not any(block.language == "console" for block in blocks):
        return
    changes = []
    with tempfile.TemporaryDirectory(prefix="fusewise-docs-") as folder:
        for name in DATA if page.path.relative_to(root).as_posix() not in WITHOUT_DATA else ():
            os.symlink(root / name, os.path.join(folder, name))
        for block in blocks:
            place = f"{page.path.relative_to(root)}:{block.first + 1}"
            if block.title:
                with open(os.path.join(folder, block.title), "w", encoding="utf-8") as file:
                    file.write("\n".join(block.lines) + "\n")
            elif block.lines and NOT_RUN.match(block.lines[0]):
                continue
            else:
                shown, complaints = run_block(block, folder, program, place)
                yield from complaints
                if shown != block.lines:
                    changes.append((block, shown))
                    if not update:
                        yield f"{place}: the output is not what the page shows (--update accepts it)\n{difference(block.lines, shown)}"
    if update and changes:
        write(page, changes)


def split(lines):
    """The commands of a block, each with the lines that follow it up to the next."""
    commands = []
    for line in lines:
        if line.startswith("$ "):
            commands.append([line[2:], []])
        elif commands and not commands[-1][1] and commands[-1][0].endswith("\\"):
            commands[-1][0] += "\n" + line
        elif commands:
            commands[-1][1].append(line)
    return [(command, output) for command, output in commands]


def run_block(block, folder, program, place):
    """The block as it would have to be, and complaints about commands that fail unannounced."""
    commands = split(block.lines)
    mark = "==end of a command=="
    script = "".join(f'{command}\nstatus=$?; printf "\\n{mark} %d\\n" $status; (exit $status)\n' for command, _ in commands)
    environment = dict(os.environ, LANG="C.UTF-8", LC_ALL="C.UTF-8", NO_COLOR="1",
                       PATH=os.path.dirname(os.path.abspath(program)) + os.pathsep + os.environ.get("PATH", ""))
    run = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, text=True)
    ends = re.split(rf"\n?{mark} (\d+)\n", run.stdout)
    outputs, statuses = ends[0:-1:2], ends[1::2]
    shown, complaints = [], []
    for number, (command, expected) in enumerate(commands):
        if number >= len(statuses):
            complaints.append(f"{place}: the shell ended before: {command}")
            break
        asked = number + 1 < len(commands) and "$?" in commands[number + 1][0]
        if statuses[number] != "0" and not asked:
            complaints.append(f"{place}: exit code {statuses[number]} of: {command}\n{outputs[number]}")
        printed = [line.rstrip() for line in outputs[number].split("\n")] if outputs[number] else []
        while printed and not printed[-1]:
            printed.pop()
        shown += ("$ " + command).split("\n")
        shown += expected if matches(expected, printed) else elided_alike(expected, printed)
    return shown, complaints


def pieces_of(expected):
    """The lines between the marks `...`."""
    pieces = [[]]
    for line in expected:
        if line.strip() == "...":
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


def matches(expected, printed):
    """Whether the printed lines are the expected ones, if `...` may stand for any lines."""
    expected = list(expected)
    while expected and not expected[-1]:
        expected.pop()
    pieces = pieces_of(expected)
    if len(pieces) == 1:
        return expected == printed
    first, *middle, last = pieces
    end = len(printed) - len(last)
    if printed[:len(first)] != first or end < len(first) or printed[end:] != last:
        return False
    begin = len(first)
    for piece in middle:
        while begin + len(piece) <= end and printed[begin:begin + len(piece)] != piece:
            begin += 1
        if begin + len(piece) > end:
            return False
        begin += len(piece)
    return True


def elided_alike(expected, printed):
    """The printed lines with those left out that the page leaves out: each piece becomes the lines that resemble it most."""
    pieces = pieces_of(expected)
    if len(pieces) == 1:
        return printed
    first, *middle, last = pieces
    kept = printed[:len(first)]
    begin, end = len(first), max(len(first), len(printed) - len(last))
    for piece in middle:
        places = range(begin, max(begin, end - len(piece)) + 1)
        best = max(places, key=lambda place: resemblance(piece, printed[place:place + len(piece)]))
        kept += ["..."] + printed[best:best + len(piece)]
        begin = best + len(piece)
    return kept + ["..."] + printed[max(begin, end):]


def resemblance(piece, lines):
    return difflib.SequenceMatcher(None, "\n".join(piece), "\n".join(lines), autojunk=False).ratio()


def difference(old, new):
    return "\n".join(list(difflib.unified_diff(old, new, "page", "program", lineterm="", n=1))[2:40])


def write(page, changes):
    """Puts the new lines of each block in the place of the old ones, from the end of the page to its beginning."""
    lines = list(page.lines)
    for block, shown in sorted(changes, key=lambda change: -change[0].first):
        lines[block.first:block.first + len(block.lines)] = [(block.indent + line).rstrip() for line in shown]
    page.path.write_text("\n".join(lines), encoding="utf-8")
