"""What a Tuning found, in words and as files."""
from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
from typing import Any, Mapping, Optional

from fusewise.torch import prediction
from fusewise.torch.profiler import _write
from fusewise.torch.tuning import Result


def text(result: Result, plan_file: str) -> str:
    """A table of what was tried, then what to set and what to expect."""
    costs = result.costs
    lines = [f"{costs.profile['model']}: {costs.bytes / 1e6:.1f} MB of gradients on {costs.workers} ranks; computing "
             f"{costs.compute_us / 1e3:.1f} ms, one all-reduce of all {costs.curve[-1][1] / 1e3:.1f} ms, "
             f"the rest {costs.rest_us / 1e3:.1f} ms",
             f"beside each other computing is {100 * costs.compute_slowdown:.0f} % and communicating "
             f"{100 * costs.communication_slowdown:.0f} % slower", "",
             f"{'':<34}  iteration, ms          behind backward, ms",
             f"{'setting':<34}  predicted    measured  predicted    measured"]
    for setting, times, behind in zip(result.settings, result.explored, result.behind_us):
        lines.append(f"{_short(setting.name):<34}  {setting.predicted_us / 1e3:9.1f} {statistics.median(times) / 1e3:11.1f}"
                     f"  {setting.behind_us / 1e3:9.1f} {statistics.median(behind) / 1e3:11.1f}")
    return "\n".join([*lines, "", *_conclusion(result, plan_file)]) + "\n"


def _short(name: str) -> str:
    return name if len(name) <= 34 else name[:30] + " ..."


def _to_set(result: Result, plan_file: str) -> Optional[str]:
    """What to write into the script; nothing if no setting was measured to be faster than the default."""
    best = result.settings[result.best]
    if not result.saving.is_sure:
        return None
    if best.groups is not None:
        return f"model = fusewise.torch.apply_plan(model, {plan_file!r})"
    return f"DistributedDataParallel(model, {', '.join(f'{k}={v}' for k, v in best.arguments.items())})"


def _conclusion(result: Result, plan_file: str) -> list[str]:
    best, saving = result.settings[result.best], result.saving
    default_us = statistics.median(result.confirmed[0])
    predicted_us = result.settings[0].predicted_us - best.predicted_us
    interval = (f"{len(result.confirmed[0])} further pairs of iterations, "  # other ones than those of the table
                f"95 % interval {saving.low_us / 1e3:.1f} to {saving.high_us / 1e3:.1f} ms")
    predicted = f"predicted {predicted_us / 1e3:.1f} ms"
    what = _to_set(result, plan_file)
    if what is None:
        return ["set     nothing: keep the default, nothing was measured to be faster",
                f"expect  the best other, {_short(best.name)}, saved {saving.us / 1e3:.1f} ms ({interval}), {predicted}"]
    return [f"set     {what}",
            f"expect  {saving.us / 1e3:.1f} ms less than {default_us / 1e3:.1f} ms per iteration, "
            f"{100 * saving.us / default_us:.1f} % ({interval}), {predicted}"]


def save(result: Result, folder: pathlib.Path) -> None:
    """Profile, network, scenario and plan for further commands, and what was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    costs = result.costs
    for name, document in (
            ("job.profile.json", costs.profile), ("job.network.json", prediction.network_file(costs)),
            ("job.json", prediction.scenario(costs, prediction.fusions_of(result.settings))),
            ("plan.json", _without_copies(result.plan.raw)), ("measured.json", found(result, str(folder / "plan.json")))):
        _write(folder / name, json.dumps(document, indent=2) + "\n")


def _without_copies(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A file for other commands, which know nothing of DDP's copies; the plans that it was compared with have none."""
    return {**plan, "compression": "none", "predicted": {**plan["predicted"], "compared_with": []}}


def found(result: Result, plan_file: str) -> dict:
    """What to set, settings with predicted and measured times, and the confirmed saving, in microseconds."""
    return {
        "set": _to_set(result, plan_file),
        "settings": [{"name": setting.name, "arguments": setting.arguments, "predicted_us": setting.predicted_us,
                      "measured_us": times, "predicted_behind_us": setting.behind_us, "measured_behind_us": behind}
                     for setting, times, behind in zip(result.settings, result.explored, result.behind_us)],
        "best": result.settings[result.best].name, "confirmed_us": list(result.confirmed),
        "saving": dataclasses.asdict(result.saving), "not_overlapped_us": result.costs.not_overlapped_us}
