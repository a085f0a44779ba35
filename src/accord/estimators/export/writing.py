"""Writing a trained recommender for other programs: every file is read back and compared before it is kept."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from numpy.lib.format import open_memmap
from torch import Tensor

import accord
from accord.data.interactions import Interactions
from accord.data.parquet_files import read_parquet_file
from accord.errors import AccordError, SettingError, first_line
from accord.estimators.export.forms import cold_users, program_of, vectors_of
from accord.estimators.export.how_to import how_to
from accord.estimators.recommender_serving import scorer_of
from accord.estimators.run_folder import CONFIG, new_folder, write_json
from accord.extras import needed
from accord.files import write_whole
from accord.models.recommenders.programs import FromItems

if TYPE_CHECKING:
    from accord.estimators.recommender import Recommender

KIND = "recommender export"
COMPARED = 64
"""Users whose scores are compared."""
CLOSE = 1e-4
"""By which scores may differ, in their own size: sums are made in another order."""
NEAREST = 10
"""The list by which the index is compared with the whole search."""


@dataclass
class Export:
    """What was written."""

    path: Path
    files: list[str] = field(default_factory=list)
    form: str = "torch"
    """By what scores are computed without accord: vectors, items (weights from item to item), or torch alone."""
    recall: float | None = None
    """Of the index: the share of each user's ten best items that it finds."""
    left_out: str | None = None
    """Why there is no model.pt2, where there is none."""


def export(rec: Recommender, path: str | Path, index: bool, overwrite: bool) -> Export:
    """Write the folder, whole or not at all."""
    usearch = needed("usearch.index", "The index") if index else None
    vectors, target = vectors_of(rec), rec._target
    if index and vectors is None:
        raise SettingError(
            f"An index is made of vectors, and the scores of {type(target).__name__} are no products of any; leave "
            "the index out, or take mf, gmf, cdae, lightgcn or ials."
        )
    made = Export(Path(path))
    with new_folder(Path(path), KIND, overwrite=overwrite) as draft:
        _Writing(rec, draft, made, vectors, usearch).run()
    return made


class _Writing:
    def __init__(self, rec: Recommender, draft: Path, made: Export, vectors: Any, usearch: Any) -> None:
        self.rec, self.draft, self.made, self.vectors, self.usearch = rec, draft, made, vectors, usearch
        count = len(rec.user_ids_)
        self.users = torch.from_numpy(np.unique(np.linspace(0, count - 1, min(COMPARED, count)).astype(np.int64)))
        self.scores: Tensor = scorer_of(rec, rec._training())(self.users).detach()

    @torch.no_grad()
    def run(self) -> None:
        about: dict[str, Any] = {}
        self._ids()
        self._clicks("seen", self.rec._seen())
        self._clicks("history", self.rec._training())
        self._array("popularity.npy", cold_users(self.rec)[1].numpy())
        target = self.rec._target
        program = target.program() if hasattr(target, "program") else None
        if self.vectors is not None:
            self.made.form = "vectors"
            self._vectors()
        elif isinstance(program, FromItems) and self.rec.settings.cold_users != "model":
            self.made.form = "items"
            about = self._items(program)
        self._program()
        words = how_to(self.made.form, self.usearch is not None)
        self._text("how_to.py", words)
        self._text("README.md", _readme(self.rec, self.made))
        settings = self.rec.settings
        about |= {"form": self.made.form, "model": settings.model, "method": settings.method}
        about |= {"files": self.made.files, "recall_at_10": self.made.recall}
        write_json(self.draft / CONFIG, {"kind": KIND, "format": 1, "accord": accord.__version__} | about)

    def _ids(self) -> None:
        for side, ids, k in (("users", self.rec.user_ids_, 0), ("items", self.rec.item_ids_, 1)):
            columns: dict[str, Any] = {"id": ids.values}
            if self.vectors is not None:
                values = self.vectors[k].numpy()
                columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
            table, place = pa.table(columns), self.draft / f"{side}.parquet"
            parquet.write_table(table, place)
            self._compare(place, read_parquet_file(place, inside=True).equals(table))

    def _clicks(self, name: str, clicks: Interactions) -> None:
        self._array(f"{name}_starts.npy", clicks.starts.numpy())
        self._array(f"{name}_items.npy", clicks.items.numpy())

    def _vectors(self) -> None:
        users, items = self.vectors
        self._array("user_vectors.npy", users.numpy())
        self._array("item_vectors.npy", items.numpy())
        self._close("user_vectors.npy", users[self.users] @ items.T)
        if self.usearch is not None:
            self._index(users[self.users].numpy(), items.numpy())

    def _index(self, users: np.ndarray, items: np.ndarray) -> None:
        place, k = self.draft / "items.usearch", min(NEAREST, len(items))
        index = self.usearch.Index(ndim=items.shape[1], metric="ip", dtype="f32")
        index.add(np.arange(len(items)), np.ascontiguousarray(items))
        index.save(str(place))
        again = self.usearch.Index.restore(str(place))
        found = [again.search(user, k).keys for user in users]
        same = all(np.array_equal(a, index.search(user, k).keys) for a, user in zip(found, users, strict=True))
        self._compare(place, same and len(again) == len(items))
        exact = (torch.from_numpy(users) @ torch.from_numpy(items).T).topk(k).indices.numpy()
        shared = [len(np.intersect1d(ours, best)) for ours, best in zip(found, exact, strict=True)]
        self.made.recall = sum(shared) / exact.size

    def _items(self, program: FromItems) -> dict[str, Any]:
        self._array("item_weights.npy", program.weights.numpy())
        if program.indices is not None:
            self._array("item_neighbours.npy", program.indices.int().numpy())
        return {"scale": program.scale, "offset": program.offset, "neighbours": program.indices is not None}

    def _program(self) -> None:
        """The program of torch; where a model of one's own cannot be one, the reason is said."""
        place, histories = self.draft / "model.pt2", self._histories()
        people, clicks = torch.export.Dim("people", min=1), torch.export.Dim("clicks", min=1)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = program_of(self.rec).eval()
                asked = (torch.zeros(3, dtype=torch.int64), torch.zeros(3, 5, dtype=torch.int64))
                shapes = ({0: people}, {0: people, 1: clicks})
                torch.export.save(torch.export.export(program, asked, dynamic_shapes=shapes), place)
                found = torch.export.load(place).module()(self.users, histories)
        except Exception as error:  # whatever torch makes of somebody's model
            place.unlink(missing_ok=True)
            self.made.left_out = (
                f"torch.export takes no {type(self.rec._target).__name__}: {first_line(error)[:200]}"
            )
            return
        self.made.files.append(place.name)
        self._close(place.name, found)

    def _histories(self) -> Tensor:
        """The training clicks of the users that are compared, with −1 behind."""
        position, items, sizes = self.rec._training().rows_of(self.users)
        rows = torch.full((len(self.users), int(sizes.max()) + 1), -1)
        within = torch.arange(len(items)) - (sizes.cumsum(0) - sizes)[position]
        rows[position, within] = items
        return rows

    def _array(self, name: str, values: np.ndarray) -> None:
        place = self.draft / name
        file = open_memmap(place, "w+", values.dtype, values.shape)
        file[:] = values
        file.flush()
        del file
        self._compare(place, np.array_equal(open_memmap(place, "r"), values))

    def _text(self, name: str, words: str) -> None:
        write_whole(self.draft / name, words)
        self.made.files.append(name)

    def _close(self, name: str, found: Tensor) -> None:
        size = max(1.0, float(self.scores.abs().max()))
        if float((found - self.scores).abs().max()) > CLOSE * size:
            raise AccordError(f"The scores by '{name}' are not those of the model, so nothing was exported.")

    def _compare(self, place: Path, same: bool) -> None:
        if not same:
            raise AccordError(f"'{place.name}' reads back otherwise than it was written, so nothing was exported.")
        self.made.files.append(place.name)


def _readme(rec: Recommender, made: Export) -> str:
    lines = [
        f"# A {rec.settings.model} of {len(rec.user_ids_):,} users and {len(rec.item_ids_):,} items",
        "",
        f"Written by accord {accord.__version__}. `python how_to.py USER` prints a user's best items.",
        "",
        "| file | what is in it |",
        "|---|---|",
        "| `users.parquet`, `items.parquet` | the id of each row, and its vector where the model has vectors |",
        "| `seen_starts.npy`, `seen_items.npy` | what user u has clicked: `items[starts[u]:starts[u + 1]]` |",
        "| `history_starts.npy`, `history_items.npy` | the same, of the clicks that the model was trained on |",
        "| `popularity.npy` | the score of each item for users without a click |",
    ]
    told = {
        "user_vectors.npy": "`user_vectors.npy`, `item_vectors.npy` | vectors whose products are the scores",
        "items.usearch": f"`items.usearch` | an index; it finds {made.recall or 0:.1%} of the ten best",
        "item_weights.npy": "`item_weights.npy` | weights from each item to all, or to its `item_neighbours.npy`",
        "model.pt2": "`model.pt2` | a program of `torch.export`: scores of all items, by row numbers of users (B,) "
        "and of the items that each has clicked (B, H), −1 behind",
    }
    lines += [f"| {words} |" for name, words in told.items() if name in made.files]
    return "\n".join([*lines, *([f"\nThere is no model.pt2: {made.left_out}"] if made.left_out else [])]) + "\n"
