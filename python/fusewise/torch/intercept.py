"""Runs a training script with a Tuning behind the DistributedDataParallel that it makes."""
from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any, Callable, Iterator, Mapping, Optional

from torch.nn.parallel import DistributedDataParallel

from fusewise.torch.tuning import NotMeasurable, Tuning


class Interception:
    """What the script made: `tuning` is None until it has wrapped its model."""

    def __init__(self) -> None:
        self.tuning: Optional[Tuning] = None


@contextlib.contextmanager
def intercepted(make: Callable[[DistributedDataParallel, Mapping[str, Any]], Tuning]) -> Iterator[Interception]:
    """Calls make(wrapped model, arguments of its constructor) when a DistributedDataParallel is made in here."""
    interception = Interception()
    original_init, original_forward = DistributedDataParallel.__init__, DistributedDataParallel.forward
    signature = inspect.signature(original_init)

    @functools.wraps(original_init)  # and so its signature
    def init(self: DistributedDataParallel, *positional: Any, **named: Any) -> None:
        original_init(self, *positional, **named)
        tuning = interception.tuning
        if tuning is None:
            arguments = dict(signature.bind(self, *positional, **named).arguments)
            for first in ("self", "module"):
                arguments.pop(first)
            interception.tuning = make(self, arguments)
        elif not tuning.is_building:
            raise NotMeasurable("expected one DistributedDataParallel, got a second")

    def forward(self: DistributedDataParallel, *inputs: Any, **named: Any) -> Any:
        tuning = interception.tuning
        if tuning is None or self is not tuning.ddp:
            return original_forward(self, *inputs, **named)
        return tuning.forward(original_forward, inputs, named)

    DistributedDataParallel.__init__, DistributedDataParallel.forward = init, forward
    try:
        yield interception
    finally:
        DistributedDataParallel.__init__, DistributedDataParallel.forward = original_init, original_forward
