"""python -m fusewise.torch: fusewise torch."""
import sys

from fusewise.torch.command import main

if __name__ == "__main__":
    sys.exit(main())
