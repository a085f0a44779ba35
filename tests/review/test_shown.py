"""What is shown of labels and clicks: pictures that stay inside their folder, rows, histories, titles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from accord import Classifier, Recommender
from accord.errors import AccordError
from accord.review.clicked import clicks_to_review
from accord.review.items import Query
from accord.review.labelled import NO_PICTURES, NO_ROWS, labels_to_review
from accord.review.pictures import ArrayPictures, FilePictures

PNG = b"\x89PNG\r\n\x1a\n"
FAST: dict[str, Any] = {"model": "mlp", "method": "normal", "epochs": 1, "seed": 0}


def size_of_png(content: bytes) -> tuple[int, int]:
    assert content.startswith(PNG)
    return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of images, and around it what nobody named."""
    Image = pytest.importorskip("PIL.Image", reason="reading images needs accord-labels[images]")
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for k in range(12):
        Image.fromarray(rng.integers(0, 255, (40, 30, 3), dtype=np.uint8)).save(folder / f"{k}.png")
    Image.new("RGB", (9, 9)).save(tmp_path / "secret.png")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "broken.png").write_bytes(PNG + b"nothing more")
    (folder / "page.png").write_text("<script>alert(1)</script>")
    os.mkfifo(folder / "pipe.png")
    return folder


def test_a_picture_is_made_anew_and_small(photos: Path) -> None:
    pictures = FilePictures(photos, ["3.png"])
    assert size_of_png(pictures.png(0, 20) or b"") == (15, 20)
    assert size_of_png(pictures.png(0, 640) or b"") == (30, 40)
    assert pictures.png(0, 640) != (photos / "3.png").read_bytes()


@pytest.mark.parametrize(
    "name",
    ["../secret.png", "link.png", "/etc/passwd", "{outside}", "broken.png", "page.png", "pipe.png", "none.png",
     ".", "", "a\0b", "x" * 5000, "../photos/../secret.png", None],
)  # fmt: skip
def test_no_name_leads_out_of_the_folder_or_to_what_is_no_picture(photos: Path, name: str | None) -> None:
    name = name and name.replace("{outside}", str(photos.parent / "secret.png"))
    assert FilePictures(photos, [name]).png(0, 160) is None


def test_arrays_of_any_numbers_become_pictures() -> None:
    for pixels in (np.random.rand(2, 8, 8), np.random.rand(2, 300, 200, 3) - 5, np.zeros((2, 8, 8, 4), np.uint8)):
        width, height = size_of_png(ArrayPictures(pixels).png(1, 160) or b"")
        assert max(width, height) <= 160
    assert ArrayPictures(np.zeros((2, 8, 8, 2))).png(0, 160) is None
    assert ArrayPictures(np.full((2, 8, 8, 1), np.nan)).png(0, 160) is None


def images(tmp_path: Path, **more: Any) -> tuple[Classifier, np.ndarray]:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (40, 6, 6), dtype=np.uint8)
    return Classifier(**FAST).fit(pixels, rng.integers(0, 2, 40), **more), pixels


def test_a_run_of_an_array_shows_its_worst_images_until_all_are_given(tmp_path: Path) -> None:
    clf, pixels = images(tmp_path)
    items, shown = labels_to_review(clf)
    assert shown.grid
    assert shown.notices == [NO_PICTURES]
    worst = set(np.asarray(clf.worst_images_[0]).tolist())
    assert {at for at in range(40) if shown.picture(at, 160)} == worst
    np.save(tmp_path / "all.npy", pixels)
    _, shown = labels_to_review(clf, tmp_path / "all.npy")
    assert all(shown.picture(at, 160) for at in range(40))
    assert not shown.notices
    np.save(tmp_path / "some.npy", pixels[:39])
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    for bad in ("some.npy", "objects.npy", "none.npy", "", "../all.txt"):
        with pytest.raises(AccordError):
            labels_to_review(clf, tmp_path / bad)
    with pytest.raises(AccordError, match="leave data= out"):
        labels_to_review(clf, None, tmp_path / "x.csv")
    assert len(items) == 40


def test_a_run_of_a_folder_finds_its_images_and_names_them(photos: Path) -> None:
    names = [f"{k}.png" for k in range(12)]
    csv.write_csv(pa.table({"file": names, "label": [k % 2 for k in range(12)]}), photos / "labels.csv")
    clf = Classifier(**FAST).fit(photos)
    items, shown = labels_to_review(clf)
    assert shown.title(5) == "5.png"
    assert size_of_png(shown.picture(5, 160) or b"") == (30, 40)  # of the file, not of what was trained on
    found = items.select(Query(text="11.PNG"), np.zeros(12, np.int8))
    assert found.tolist() == [11]
    elsewhere = photos.rename(photos.with_name("moved"))
    _, shown = labels_to_review(clf)
    assert shown.notices == [NO_PICTURES]
    _, shown = labels_to_review(clf, elsewhere)
    assert shown.picture(5, 160)
    with pytest.raises(AccordError, match="does not hold the run's images"):
        labels_to_review(clf, photos.parent)


def test_a_table_shows_its_own_columns_and_only_if_it_is_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {"size": rng.normal(size=50), "note": [f"note {k}\nof\x1b[31m {'long ' * 40}" for k in range(50)],
         "kind": ["<b>one</b>" if k % 2 else "two" for k in range(50)]}
    )  # fmt: skip
    csv.write_csv(table, tmp_path / "rows.csv")
    clf = Classifier(**FAST).fit(tmp_path / "rows.csv", "kind")
    items, shown = labels_to_review(clf)
    assert shown.columns == ("size", "note")
    assert not shown.grid
    assert shown.cells(3)[1].startswith("note 3 of\\x1b[31m")
    assert all(len(cell) <= 80 for cell in shown.cells(3))
    fields = dict(shown.details(3)["fields"])
    assert list(fields) == ["row", "size", "note"]
    assert len(fields["note"]) > 80
    assert items.select(Query(text="note 17"), np.zeros(50, np.int8)).tolist() == [17]
    other = table.set_column(2, "kind", pa.array(["two"] * 50))
    csv.write_csv(other, tmp_path / "other.csv")
    with pytest.raises(AccordError, match="not the one that was fitted on"):
        labels_to_review(clf, None, tmp_path / "other.csv")
    with pytest.raises(AccordError, match="none.csv"):
        labels_to_review(clf, None, tmp_path / "none.csv")
    with pytest.raises(AccordError, match="leave images= out"):
        labels_to_review(clf, tmp_path)
    (tmp_path / "rows.csv").rename(tmp_path / "moved.csv")
    assert len(labels_to_review(clf)[1].notices) == 1
    assert labels_to_review(clf, None, tmp_path / "moved.csv")[1].columns == ("size", "note")


def test_a_text_is_shown_whole_and_an_array_has_nothing_to_show(tmp_path: Path) -> None:
    texts = pa.table({"text": [f"line {k}\nsecond line" for k in range(30)], "label": [k % 2 for k in range(30)]})
    csv.write_csv(texts, tmp_path / "texts.csv")
    _, shown = labels_to_review(Classifier(**FAST).fit(tmp_path / "texts.csv", "label"))
    assert shown.details(4)["text"] == "line 4\nsecond line"
    X = np.random.default_rng(0).normal(size=(30, 2))
    _, shown = labels_to_review(Classifier(**FAST).fit(X, np.arange(30) % 2))
    assert shown.notices == [NO_ROWS]
    assert shown.cells(0) == []
    assert shown.details(0)["fields"] == [["row", "0"]]


# -- clicks ------------------------------------------------------------------------------------------------


def test_a_click_shows_its_users_other_clicks_nearest_in_time(fitted: Recommender) -> None:
    items, shown = clicks_to_review(fitted)
    clicks, judged = fitted.clicks_, fitted.judged_clicks()
    at = len(clicks) // 2
    details = shown.details(at)
    own = [k for k in range(len(clicks)) if clicks.users[k] == clicks.users[at] and k != at]
    assert details["clicks"] == len(own)
    assert sorted(row["at"] for row in details["history"]) == own
    times = [clicks.times[row["at"]] for row in details["history"]]
    assert times == sorted(times)
    first = details["history"][0]
    assert first["quality"] == pytest.approx(judged["label_quality"][first["at"]], abs=1e-4)
    assert shown.cells(at)[2][:2] == "20"  # seconds since 1970 are a date
    assert items.what == "clicks"
    assert np.array_equal(items.flagged, judged["is_label_issue"])


def test_items_have_titles_pictures_and_whatever_else_the_file_holds(fitted: Recommender, photos: Path) -> None:
    ids = fitted.item_ids_.values.to_pylist()
    table = {"Item_ID": [*ids[1:], ids[1], "unknown"], "Title": [*(f"Title <{k}>" for k in ids[1:]), "later", "x"]}
    table |= {"poster": ["../secret.png", *["2.png"] * (len(ids) - 1), "x"], "price": list(range(len(ids) + 1))}
    csv.write_csv(pa.table(table), photos / "items.csv")
    items, shown = clicks_to_review(fitted, photos / "items.csv")
    by_item = {int(item): k for k, item in enumerate(fitted.clicks_.items)}
    with_title, hostile, without = by_item[3], by_item[1], by_item[0]
    assert shown.title(with_title) == f"Title <{ids[3]}>"
    assert shown.title(without) == ids[0]
    assert dict(shown.details(with_title)["fields"])["price"] == "2"
    assert shown.picture(with_title, 160)
    assert shown.picture(hostile, 160) is None  # its file is outside the folder
    assert shown.picture(without, 160) is None
    found = items.select(Query(text=f"title <{ids[3]}>"), np.zeros(items.size, np.int8))
    assert set(fitted.clicks_.items[found].tolist()) == {3}
    csv.write_csv(pa.table({"name": ["a"], "price": [1]}), photos / "bad.csv")
    csv.write_csv(pa.table({"item": ["nobody knows it"], "price": [1]}), photos / "others.csv")
    for bad, words in (
        ("bad.csv", "No column of item ids"),
        ("others.csv", "is an item of this run"),
        ("x.csv", "x.csv"),
    ):
        with pytest.raises(AccordError, match=words):
            clicks_to_review(fitted, photos / bad)
