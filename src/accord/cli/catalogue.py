"""`accord data`: the catalogue, and fetching what it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accord.cli import ui
from accord.data.datasets.benchmarks import load_benchmark
from accord.data.datasets.catalogue import DATA_SETS, find_data_set
from accord.data.datasets.entries import FOLDER_VARIABLE, data_root
from accord.data.datasets.image_sets import IMAGE_SETS, ImageSet


def run_data_list() -> dict[str, Any]:
    root = data_root()
    images = [["labelled", "size", "train", "clean test", "classes", "at hand"]]
    for entry in IMAGE_SETS.values():
        numbers = [f"{entry.train:,}", f"{entry.test:,}", str(len(entry.classes))]
        images.append([entry.name, entry.size, *numbers, "yes" if entry.at_hand(root) else "no"])
    rows = [["clicks", "users", "items", "clicks", "clean test", "at hand"]]
    for entry in DATA_SETS.values():
        numbers = [f"{value:,}" for value in (entry.users, entry.items, entry.interactions)]
        rows.append([entry.name, *numbers, entry.clean, "yes" if entry.at_hand(root) else "no"])
    ui.table(rows)
    ui.table(images)
    ui.say(f"Folder: {root or f'none; set {FOLDER_VARIABLE}'}")
    named = {
        kind: [{"name": entry.name, "title": entry.title, "at_hand": entry.at_hand(root)} for entry in entries]
        for kind, entries in (("clicks", DATA_SETS.values()), ("labelled", IMAGE_SETS.values()))
    }
    return {"folder": root, **named}


def _show_images(entry: ImageSet) -> dict[str, Any]:
    ui.out.print(
        f"{entry.title}: {entry.train:,} images of {entry.size}, {len(entry.classes)} classes", markup=False
    )
    ui.out.print(f"clean test: {entry.test:,} images", markup=False)
    for label in ("terms", "citation"):
        ui.out.print(f"{label}: {getattr(entry, label)}", markup=False)
    ui.out.print(f"classes: {', '.join(entry.classes)}", markup=False)
    if entry.files:
        ui.out.print(f"origin: {entry.files[0].origin.rsplit('/', 1)[0]}", markup=False)
        if entry.package:
            ui.out.print(f"package: {entry.package.tool} {entry.package.name}", markup=False)
    at_hand = entry.at_hand(data_root())
    ui.out.print(f"at hand: {'yes' if at_hand else 'no'}", markup=False)
    said = {name: getattr(entry, name) for name in ("name", "title", "terms", "citation", "size", "train", "test")}
    return {**said, "classes": list(entry.classes), "at_hand": at_hand}


def run_data_show(name: str) -> dict[str, Any]:
    if name in IMAGE_SETS:
        return _show_images(IMAGE_SETS[name])
    entry, root = find_data_set(name), data_root()
    ui.out.print(f"{entry.title}: {entry.users:,} users, {entry.items:,} items, {entry.interactions:,} clicks")
    for label in ("clean", "split", "terms", "citation"):
        ui.out.print(f"{label}: {getattr(entry, label)}", markup=False)
    ui.out.print(f"metrics at: {', '.join(str(k) for k in entry.ks)}")
    for file in entry.files:
        here = root is not None and entry.path(file.name, root).is_file()
        state = "at hand" if here else f"missing, from {file.origin}"
        ui.out.print(f"  {entry.folder}/{file.name}: {state}", markup=False)
    names = ("name", "title", "users", "items", "interactions", "clean", "split", "terms", "citation", "caveat")
    names += ("note",)
    said = {name: getattr(entry, name) for name in names} | {"at_hand": entry.at_hand(root)}
    if entry.at_hand(root):
        for protocol in entry.protocols:
            sizes = said[protocol] = load_benchmark(entry, protocol).sizes
            ui.out.print(f"{protocol}: " + ", ".join(f"{part} {size:,}" for part, size in sizes.items()))
    for words, label in ((entry.caveat, "caveat of paper"), (entry.note, "note")):
        if words:
            ui.out.print(f"{label}: {words}", markup=False)
    return said


def run_data_get(name: str, root: Path, way: str) -> dict[str, Any]:
    from accord.data.datasets.fetching import fetch

    entry = IMAGE_SETS.get(name) or find_data_set(name)
    with ui.bar() as progress:
        task = progress.add_task(f"fetching {entry.title}", total=None, note="")

        def tick(done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total, note=f"{done / 1e6:.1f} MB")

        came = fetch(entry, root, way, tick)
    ui.say(f"{entry.title} came from {came}; set {FOLDER_VARIABLE}={root}")
    return {"name": name, "from": came, "folder": root}
