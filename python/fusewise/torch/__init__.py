"""fusewise inside a PyTorch job: profiles a training script, applies plans, and watches what is measured; needs torch.

    python -m fusewise.torch train.py    # or `fusewise torch train.py`: all of it for a script as it is
"""
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusewise.torch.plans import BucketedDataParallel, apply_plan, begin_micro_batch, comm_hook, ddp_kwargs, fsdp2
    from fusewise.torch.profiler import Profiler
    from fusewise.torch.watching import Watch, compare, watch

__all__ = ["BucketedDataParallel", "Profiler", "Watch", "apply_plan", "begin_micro_batch", "comm_hook", "compare", "ddp_kwargs", "fsdp2", "watch"]

_MODULES = {name: "plans" for name in ("BucketedDataParallel", "apply_plan", "begin_micro_batch", "comm_hook", "ddp_kwargs", "fsdp2")}
_MODULES |= {"Profiler": "profiler", "Watch": "watching", "compare": "watching", "watch": "watching"}


def __getattr__(name: str) -> Any:
    """Modules are imported when they are wanted, so that --help needs no torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"fusewise.torch.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError("fusewise.torch needs PyTorch: pip install torch", name="torch") from error
