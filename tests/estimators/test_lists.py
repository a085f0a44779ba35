"""Lists for everybody: exact, the same as one by one, whole, resumed, and shared by processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from accord import Recommender
from accord.data.interactions import Interactions
from accord.errors import DataError, SettingError
from accord.estimators.serving import everyone
from accord.estimators.serving import lists as lists_of
from accord.estimators.serving.best import STRIDE, WORTH, best
from accord.estimators.serving.lists import best_lists, joined
from accord.estimators.serving.products import TILE, Products


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(0, 3 * STRIDE), st.integers(1, 12), st.integers(0, 9), st.integers(0, 2**31))
def test_the_best_are_those_of_a_whole_search(rows: int, more: int, k: int, gone: int, seed: int) -> None:
    """With equal scores and with some left out, the values are the same, and each is where it is said to be."""
    noise = torch.Generator().manual_seed(seed)
    count = WORTH * k * STRIDE + more
    scores = torch.randint(0, 500, (rows, count), generator=noise).float()
    scores[:, torch.randint(0, count, (gone * count // 10,), generator=noise)] = -torch.inf
    values, indices = best(scores, k)
    assert torch.equal(values, scores.topk(k).values)
    assert torch.equal(scores.gather(1, indices), values)
    assert all(len(set(row)) == k for row in indices.tolist())


def test_few_scores_are_searched_as_a_whole() -> None:
    values, indices = best(torch.tensor([[1.0, 3.0, 2.0]]), 5)
    assert values.tolist() == [[3.0, 2.0, 1.0]]
    assert indices.tolist() == [[1, 2, 0]]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists_of, "BLOCK", 20 * 250)
    monkeypatch.setattr(lists_of, "AT_LEAST", 1)
    monkeypatch.setattr(everyone, "ROWS", 200)  # 40 users with 5 items


@pytest.mark.parametrize("options", [{}, {"exclude_seen": False}, {"items": ["i1", "i2", "i3", "i4", "i9"]}])
def test_all_lists_are_those_of_each_user(fitted: Recommender, small_parts: None, options: dict[str, Any]) -> None:
    alone = fitted.recommend(fitted.user_ids_.values, 5, **options)
    blocks = list(fitted.recommend_all(5, **options))
    assert len(blocks) == 15
    assert pa.concat_tables(blocks).equals(alone)
    assert fitted.recommend_all(5, **options).to_table().equals(alone)


def test_a_killed_call_goes_on_where_it_was(fitted: Recommender, small_parts: None, tmp_path: Path) -> None:
    place, told = tmp_path / "recs.parquet", list[int]()

    def killed(done: int, of: int) -> None:
        assert of == 300
        if done > 140:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted.recommend_all(5).write(place, killed)
    assert not place.exists()
    parts = sorted((tmp_path / "recs.parquet.parts").glob("part-*"))
    assert len(parts) == 3
    fitted.recommend_all(5).write(place, lambda done, of: told.append(done))
    assert told[:3] == [40, 80, 120]  # parts that were there are not ranked again, block by block
    assert told[3] == 140
    assert parquet.read_table(place).equals(fitted.recommend_all(5).to_table())
    assert [path.name for path in tmp_path.iterdir()] == ["recs.parquet"]
    assert parquet.ParquetFile(place).num_row_groups == 8


def test_what_is_finished_stays_and_other_settings_replace_it(
    fitted: Recommender, small_parts: None, tmp_path: Path
) -> None:
    place = tmp_path / "recs.parquet"
    fitted.recommend_all(5).write(place)
    before = place.stat().st_mtime_ns
    fitted.recommend_all(5).write(place)
    assert place.stat().st_mtime_ns == before
    fitted.recommend_all(4).write(place)
    assert parquet.read_table(place).equals(fitted.recommend_all(4).to_table())


def test_parts_of_another_model_or_other_settings_are_not_taken(
    fitted: Recommender, small_parts: None, tmp_path: Path, made: Any
) -> None:
    place = tmp_path / "recs.parquet"
    other = Recommender(model="itemknn").fit(made.log())

    def killed(done: int, of: int) -> None:
        if done > 140:
            raise KeyboardInterrupt

    for lists in (other.recommend_all(5), fitted.recommend_all(5, exclude_seen=False)):
        with pytest.raises(KeyboardInterrupt):
            lists.write(place, killed)
    fitted.recommend_all(5).write(place)
    assert parquet.read_table(place).equals(fitted.recommend_all(5).to_table())


def test_a_part_that_is_damaged_is_made_again(fitted: Recommender, small_parts: None, tmp_path: Path) -> None:
    place = tmp_path / "recs.parquet"

    def killed(done: int, of: int) -> None:
        if done > 140:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted.recommend_all(5).write(place, killed)
    part = tmp_path / "recs.parquet.parts" / "part-000001.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    fitted.recommend_all(5).write(place)
    assert parquet.read_table(place).equals(fitted.recommend_all(5).to_table())


def test_ranks_share_the_users(fitted: Recommender, tmp_path: Path) -> None:
    for rank in range(4):
        written = fitted.recommend_all(5, rank=rank, world=4).write(tmp_path / "recs")
        assert written.name == f"recs-{rank:05d}-of-00004.parquet"
    together, alone = parquet.read_table(tmp_path / "recs"), fitted.recommend_all(5).to_table()
    assert together.select(["user", "rank", "item"]).equals(alone.select(["user", "rank", "item"]))
    np.testing.assert_allclose(together["score"], alone["score"], rtol=1e-5)


def test_more_processes_than_users() -> None:
    rec = Recommender(model="itemknn").fit({"user": ["u1", "u1", "u2", "u2"], "item": ["i1", "i2", "i2", "i3"]})
    each = [rec.recommend_all(1, rank=rank, world=5) for rank in range(5)]
    assert sum(map(len, each)) == 2
    assert sum(one.to_table().num_rows for one in each) == 2


@pytest.mark.parametrize(("rank", "world"), [(4, 4), (-1, 2), (0, 0)])
def test_a_rank_that_is_none(fitted: Recommender, rank: int, world: int) -> None:
    with pytest.raises(SettingError, match="ranks are counted from 0"):
        fitted.recommend_all(5, rank=rank, world=world)


def test_other_peoples_files_stay(fitted: Recommender, tmp_path: Path) -> None:
    place, folder = tmp_path / "recs.parquet", tmp_path / "recs.parquet.parts"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="'mine.txt', which is no part"):
        fitted.recommend_all(5).write(place)
    (folder / "mine.txt").rename(tmp_path / "mine.txt")
    (folder / "part-000000.parquet").symlink_to(tmp_path / "mine.txt")
    with pytest.raises(DataError, match="is a link, and"):
        fitted.recommend_all(5).write(place)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert not place.exists()


def test_a_folder_or_a_file_where_the_other_is_meant(fitted: Recommender, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name a file"):
        fitted.recommend_all(5).write(tmp_path)
    (tmp_path / "recs.parquet").write_text("x")
    with pytest.raises(DataError, match="so name one"):
        fitted.recommend_all(5, rank=1, world=2).write(tmp_path / "recs.parquet")


@pytest.mark.parametrize("narrowed", [False, True])
def test_products_give_the_lists_of_whole_rows(narrowed: bool) -> None:
    """The last tile is not full, users have seen their best items, and there may be few to choose from."""
    draws = torch.Generator().manual_seed(0)
    users, items = torch.randn(20, 6, generator=draws), torch.randn(4 * TILE + 77, 6, generator=draws)
    count = len(items)
    scores = users @ items.T
    clicked = scores.topk(30).indices
    clicked[3, :2] = torch.tensor([count - 1, 0])
    keys = np.unique((torch.arange(19)[:, None] * count + clicked[:19]).numpy())  # the last has seen nothing
    seen = Interactions.from_pairs(keys // count, keys % count, 20, count)
    own = np.arange(0, count, count // 40) if narrowed else None
    wanted, everyone = lists_of.Wanted(50, items=own), torch.arange(20)
    products = Products(users, items)
    assert products.worth(50)
    assert not Products(users, items[:100]).worth(5)
    fast = joined([found for _, found in best_lists(products, everyone, count, wanted, seen)])
    slow = joined([found for _, found in best_lists(lambda u: users[u] @ items.T, everyone, count, wanted, seen)])
    np.testing.assert_array_equal(fast.users, slow.users)
    np.testing.assert_array_equal(fast.ranks, slow.ranks)
    np.testing.assert_allclose(fast.scores, slow.scores, rtol=1e-5, atol=1e-5)
    assert (fast.items == slow.items).mean() > 0.999


def test_a_large_catalogue_goes_by_products(fitted: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its lists are the same; users without a click get the popular items."""
    slow = fitted.recommend_all(5).to_table()
    monkeypatch.setattr(everyone, "LEAST", 1)
    monkeypatch.setattr(Products, "worth", lambda self, k: True)
    lists = fitted.recommend_all(5)
    assert isinstance(lists._scorer(), Products)
    fast = lists.to_table()
    assert fast["item"].equals(slow["item"])
    np.testing.assert_allclose(fast["score"], slow["score"], rtol=1e-4)


def test_threads_give_the_same_lists_in_the_same_order() -> None:
    """And torch has as many threads afterwards, even if nobody asks for the rest."""
    from accord.estimators.serving.products import side_by_side

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        blocks = torch.arange(40).split(3)
        seen = list[int]()

        def work(block: torch.Tensor) -> list[int]:
            seen.append(torch.get_num_threads())
            return block.tolist()

        assert list(side_by_side(work, blocks)) == [block.tolist() for block in blocks]
        assert set(seen) == {1}
        assert torch.get_num_threads() == 3
        answers = side_by_side(work, blocks)
        next(answers)
        del answers
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
