"""`accord simulate`: a click log whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accord.cli import ui
from accord.data.simulator import Simulation, SimulatorSettings, simulate
from accord.errors import SettingError

SIMULATION = "simulation"


def run_simulate(values: dict[str, Any], out: Path, overwrite: bool) -> dict[str, Any]:
    from accord.estimators.run_folder import check_free

    try:
        settings = SimulatorSettings(**values)
    except ValueError as error:
        raise SettingError(f"The simulation cannot be made: {_first_reason(error)}.") from error
    check_free(out, SIMULATION, overwrite=overwrite)
    with ui.bar() as progress:
        task = progress.add_task("drawing clicks", total=1.0, note="")
        made = simulate(settings, lambda done: progress.update(task, completed=done))
    save_simulation(made, out, overwrite)
    ui.say(
        f"{len(made.users)} clicks written to {out}: {made.noise_share:.1%} are noise "
        f"(log.parquet to train on, truth.parquet and clicks.parquet to judge by)"
    )
    files = {name: out / f"{name}.parquet" for name in ("log", "truth", "clicks")}
    return {"out": out, "clicks": len(made.users), "noise_share": made.noise_share, "files": files}


def save_simulation(made: Simulation, out: Path, overwrite: bool) -> None:
    import pyarrow.parquet as parquet

    from accord.estimators.run_folder import CONFIG, new_folder, write_json

    with new_folder(out, SIMULATION, overwrite=overwrite) as draft:
        for name, table in (("log", made.log()), ("truth", made.truth()), ("clicks", made.clicks())):
            parquet.write_table(table, draft / f"{name}.parquet")
        config = {"kind": SIMULATION, "noise_share": made.noise_share, "settings": made.settings.model_dump()}
        write_json(draft / CONFIG, config)


def _first_reason(error: ValueError) -> str:
    details = getattr(error, "errors", None)
    if not callable(details):
        return str(error)
    first: Any = details()[0]  # pyright: ignore[reportIndexIssue]
    field = ".".join(str(one) for one in first["loc"])
    return f"{field}: {first['msg']}" if field else str(first["msg"]).removeprefix("Value error, ")
