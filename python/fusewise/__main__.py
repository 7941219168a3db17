"""python -m fusewise: the program, with the same arguments."""
import os
import sys

from fusewise._program import program


def main() -> None:
    file = str(program())
    os.environ.setdefault("FUSEWISE_PYTHON", sys.executable)  # for `fusewise torch`
    os.execv(file, [file, *sys.argv[1:]])


if __name__ == "__main__":
    main()
