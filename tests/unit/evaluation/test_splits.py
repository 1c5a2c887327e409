"""The split that figures are published on: sizes, no overlap, and the digests of its parts."""

from __future__ import annotations

from lodestone_eval.datasets.plain import split_by_hash


def test_split_has_the_stated_sizes_no_overlap_and_ignores_order():
    names = [f"{i}.jpg" for i in range(6000)]
    split = split_by_hash(names)
    assert [len(p) for p in (split.train, split.validation, split.test)] == [4500, 500, 1000]
    assert set(split.train) | set(split.validation) | set(split.test) == set(names)
    assert split_by_hash([*reversed(names), *names[:10]]) == split
    assert split.digests["test"] == "c87aec433d45637b39f7abb603edde78dd8f2739fad05f4394d48622af229522"
