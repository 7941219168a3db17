"""Profiles a PyTorch training script and applies a plan to it; needs torch."""
try:
    from fusewise.fusewise_torch import BucketedDataParallel, Profiler, apply_plan
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError("fusewise.torch needs PyTorch: pip install torch", name="torch") from error

__all__ = ["BucketedDataParallel", "Profiler", "apply_plan"]
