"""The labels of a classifier's run for review: their columns, and the pictures, rows or texts that they are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.datasets.image_sets import IMAGE_SETS
from accord.data.splits import clean_apart
from accord.errors import AccordError, DataError, SettingError
from accord.review.items import Items, Words
from accord.review.pictures import ArrayPictures, FewPictures, FilePictures, Pictures, array_of_images
from accord.review.shown import FIELD, WHOLE, Shown, worded

CELLS, FIELDS = 6, 200
"""Columns of a table that are shown in the queue, and beside it."""
NO_PICTURES = "This run holds the pictures of its worst labels alone; give the images with images=FOLDER."
MOVED_ROWS = "The file that this run was fitted on is not there as it was; give it with data=FILE."
NO_ROWS = "This run does not know the file of its rows; give it with data=FILE."


class ShownLabels(Shown):
    """Examples of a classifier: pictures, rows of a table, or texts."""

    def __init__(self, clf: Any, images: Path | None = None, data: Path | None = None) -> None:
        super().__init__()
        self.clf, self.grid, self.table = clf, len(clf.shape_) == 3, None
        if self.grid:
            if data is not None:
                raise SettingError("This run is of images; give them with images=FOLDER, and leave data= out.")
            self.pictures = self._pictures(images)
        else:
            if images is not None:
                raise SettingError("This run is of a table; give it with data=FILE, and leave images= out.")
            self.table = self._rows(data)
        shown = [] if self.table is None else self.table.column_names
        self.columns = tuple(worded(name) for name in shown[:CELLS])

    def title(self, at: int) -> str:
        for names in (self.clf.names_, self.clf.index_):
            if names is not None:
                return worded(names[at].as_py() if isinstance(names, pa.Array) else names[at])
        return f"row {at}"

    def cells(self, at: int) -> list[str]:
        return [] if self.table is None else [worded(self.table[k][at].as_py()) for k in range(len(self.columns))]

    def details(self, at: int) -> dict[str, Any]:
        fields = [["row", str(at)]] + ([["file", self.title(at)]] if self.clf.names_ is not None else [])
        if self.table is None:
            return {"fields": fields}
        if self.table.num_columns == 1 and isinstance(self.table[0][at].as_py(), str):
            return {"fields": fields, "text": worded(self.table[0][at].as_py(), WHOLE, lines=True)}
        names = self.table.column_names[:FIELDS]
        own = [[worded(name), worded(self.table[k][at].as_py(), FIELD)] for k, name in enumerate(names)]
        return {"fields": fields + own}

    def words(self) -> list[Words]:
        """What can be searched: names of files, the classes, and text of the table."""
        clf, found = self.clf, list[Words]()
        classes = [str(name) for name in clf.classes_]
        found += [Words.of(classes, clf.labels_), Words.of(classes, clf.predicted_)]
        if clf.names_ is not None:
            found.append(Words.of([str(name) for name in clf.names_]))
        if clf.index_ is not None:
            found.append(Words.of(clf.index_))
        for column in () if self.table is None else self.table.columns:
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                found.append(Words.of(column))
        return found

    # -- where they are --------------------------------------------------------------------------------

    def _pictures(self, images: Path | None) -> Pictures | None:
        """What was given, or what the run remembers: a folder, or a set of the catalogue; else its few worst."""
        clf, count = self.clf, len(self.clf.labels_)
        if images is not None:
            if images.is_dir():
                return self._of_folder(images)
            if str(images) in IMAGE_SETS and not images.exists():
                return self._of_catalogue(str(images))
            if images.suffix.lower() != ".npy":
                raise DataError(f"'{images}' is no folder of images and no .npy file; give one of them.")
            return ArrayPictures(array_of_images(images, count, clf.shape_))
        notes = clf.notes_
        try:
            if notes.get("source") == "catalogue" and isinstance(notes.get("data"), str):
                return self._of_catalogue(notes["data"])
            for place in (notes.get("data"), notes.get("labels")):
                folder = Path(place) if isinstance(place, str) else None
                folder = folder.parent if folder is not None and folder.is_file() else folder
                if folder is not None and folder.is_dir() and clf.names_ is not None:
                    return self._of_folder(folder)
        except AccordError:  # it is not there any more; whoever made the run chose the place, so no more is told
            pass
        self.notices.append(NO_PICTURES)
        return None if clf.worst_images_ is None else FewPictures(*clf.worst_images_)

    def _of_folder(self, folder: Path) -> Pictures:
        if self.clf.names_ is None:
            raise DataError("This run knows no files of its images; give images=FILE, a .npy of them all.")
        found = FilePictures(folder, self.clf.names_)
        if found.path(0) is None:
            first = worded(self.clf.names_[0])
            raise DataError(f"'{folder}' does not hold the run's images: there is no '{first}'.")
        return found

    def _of_catalogue(self, name: str) -> Pictures:
        clf = self.clf
        if name not in IMAGE_SETS:
            raise DataError(f"'{name}' is no set of images of the catalogue.")
        inputs = IMAGE_SETS[name].load().inputs
        rows = None
        if len(inputs) != len(clf.labels_):
            rows = clean_apart(len(inputs), clf.settings.seed)[1]  # some were kept apart as clean
        if inputs.shape[1:] != clf.shape_ or (rows is not None and len(rows) != len(clf.labels_)):
            raise DataError(f"The images of '{name}' are not those that the run was fitted on.")
        return ArrayPictures(inputs, rows)

    def _rows(self, data: Path | None) -> pa.Table | None:
        """The table without its labels."""
        clf = self.clf
        if data is None and clf.source_file_ is None:
            self.notices.append(NO_ROWS)
            return None
        try:
            table = clf.source_table(data)
        except (AccordError, OSError) as error:
            if data is not None:
                raise error if isinstance(error, AccordError) else _unreadable(data, error) from error
            self.notices.append(MOVED_ROWS)
            return None
        label = clf.notes_.get("label")
        return table.drop_columns([label]) if label in table.column_names else table


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"'{path}' cannot be read: {error.strerror or error}.")


def labels_to_review(clf: Any, images: Path | None = None, data: Path | None = None) -> tuple[Items, Shown]:
    """The columns of a classifier's labels, and what is shown of each."""
    shown = ShownLabels(clf, images, data)
    items = Items(
        "labels",
        np.ones(len(clf.labels_), bool),
        np.asarray(clf.label_quality_, np.float32),
        np.asarray(clf.is_issue_, bool),
        clf.labels_.astype(np.int32),
        clf.predicted_.astype(np.int32),
        [worded(name) for name in clf.classes_],
        dict(clf.votes_ or {}),
        {} if clf.names_ is None else {"name": np.unique(clf.names_, return_inverse=True)[1]},
        shown.words(),
    )
    return items, shown
