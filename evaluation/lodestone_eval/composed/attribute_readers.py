"""Readers of benchmarks whose words name a state or attributes to change: MIT-States, CelebA, CelebA+ and Shopping100k.

MIT-States (Isola et al., 2015) with the queries and the split of TIRG (Vo et al., 2019). CelebA (Liu et al., 2015).
Shopping100k (Ak et al., 2018) with the splits of ADDE (Hou et al., 2021). MUST (appendix J) evaluates on all of them, with the
text of a picture (its state and noun, or its attributes) as the auxiliary modality.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lodestone.errors import NotFoundError
from lodestone_eval.composed.queries import ComposedQuery, ComposedSet, QueryPicture, finish
from lodestone_eval.datasets.base import Folder, check_split, one_line, safe_name

_RECALL: Final = ("recall@1(1)", "recall@5(1)", "recall@10(1)")

_STATES_LAYOUT: Final = "expected: DIR/images/moldy cheese/*.jpg … (or the folders `state noun` in DIR itself)"
_UNLABELLED: Final = "adj"  # the state of folders whose pictures nobody labelled
_TEST_NOUNS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        armor bracelet bush camera candy castle ceramic cheese clock clothes coffee fan fig fish foam forest fruit furniture
        garden gate glass horse island laptop lead lightning mirror orange paint persimmon plastic plate potato road rubber sand
        shell sky smoke steel stream table tea tomato vacuum wax wheel window wool
        """,
    )
)

_FACES_LAYOUT: Final = (
    "expected: DIR/Anno/list_attr_celeba.txt, DIR/Anno/identity_CelebA.txt, DIR/Eval/list_eval_partition.txt (or all three in "
    "DIR) and DIR/Img/img_align_celeba/000001.jpg … (or DIR/img_align_celeba/)"
)
_PARTITIONS: Final = {"0": "train", "1": "valid", "2": "test"}
_MOST_CHANGES: Final = 4  # as many as the paper's examples show

_SHOP_LAYOUT: Final = (
    "expected: DIR/imgs_test.txt, labels_test.txt, attr_num.txt, ref_test.txt, gt_test.txt (or in DIR/splits/Shopping100k/), "
    "the pictures that imgs_test.txt names, and optionally attr_names.txt with one line a column of labels_test.txt"
)


def read_mit_states(root: Path, split: str | None) -> ComposedSet:
    """Read MIT-States; every picture of a test noun and every other state of that noun is a query.

    The words are the state. All pictures of the noun in that state are right, and the reference is left out, as in TIRG.

    Args:
        root: The folder.
        split: test (default) searches the pictures of the test nouns, train those of the others. must asks the queries of test
            over the pictures of all nouns, which is how many objects the paper counts.
    """
    split = split or "test"
    check_split("mit-states", split, ("test", "train", "must"))
    folder = Folder("mit-states", root, _STATES_LAYOUT)
    base = root / "images" if (root / "images").is_dir() else root
    pictures: dict[str, Path] = {}
    texts: dict[str, str] = {}
    members: dict[str, dict[str, frozenset[str]]] = {}
    for state_folder in sorted(path for path in base.iterdir() if path.is_dir()):
        words = state_folder.name.split()
        if len(words) != 2 or words[0] == _UNLABELLED:
            folder.malformed(0 if words[:1] == [_UNLABELLED] else 1)
            continue
        state, noun = words
        if split != "must" and (noun in _TEST_NOUNS) != (split == "test"):
            continue
        found = {f"{state_folder.name}/{path.name}": path for path in sorted(state_folder.glob("*.jpg"))}
        pictures |= found
        texts |= dict.fromkeys(found, f"{state} {noun}")
        members.setdefault(noun, {})[state] = frozenset(found)
    if not pictures:
        raise NotFoundError(f"{folder.name}: no folder `state noun` with pictures in {str(base)!r}", hint=_STATES_LAYOUT)
    asked = {noun: states for noun, states in members.items() if split != "must" or noun in _TEST_NOUNS}
    return finish(folder, pictures, _state_queries(asked, pictures), split=split, metrics=_RECALL, texts=texts)


def _state_queries(
    members: Mapping[str, Mapping[str, frozenset[str]]], pictures: Mapping[str, Path]
) -> Iterator[ComposedQuery]:
    for noun, states in members.items():
        for state, references in states.items():
            for name in sorted(references):
                for wanted, relevant in states.items():
                    if wanted != state:
                        yield ComposedQuery(
                            f"{name}#{wanted}",
                            (QueryPicture(pictures[name]),),
                            (wanted,),
                            relevant,
                            excluded=frozenset({name}),
                            labels=(noun,),
                        )


def read_celeba(root: Path, split: str | None) -> ComposedSet:
    """Read CelebA; the words name attributes, and right is a picture of the same person that has them.

    Neither the paper nor its code says which attributes a query names. Here each picture is the reference of one query: another
    picture of the person with one to four attributes more is drawn by hash, and these attributes are the words. All other
    pictures of the person with these attributes are right.

    Args:
        root: The folder.
        split: test (default), valid or train; must asks the queries of test over the pictures of all three.
    """
    return _read_faces("celeba", root, split, picture_spaces=1)


def read_celeba_plus(root: Path, split: str | None) -> ComposedSet:
    """Read CelebA+: CelebA, whose pictures are compared by three image encoders, so that there are four modalities."""
    return _read_faces("celeba+", root, split, picture_spaces=3)


def _read_faces(name: str, root: Path, split: str | None, *, picture_spaces: int) -> ComposedSet:
    split = split or "test"
    check_split(name, split, (*_PARTITIONS.values(), "must"))
    folder = Folder(name, root, _FACES_LAYOUT)
    base = folder.folder("Img/img_align_celeba", "img_align_celeba", "images")
    partition = dict(_pairs(folder, "Eval/list_eval_partition.txt", "list_eval_partition.txt"))
    identity = dict(_pairs(folder, "Anno/identity_CelebA.txt", "identity_CelebA.txt"))
    attributes = _face_attributes(folder)
    people: dict[str, list[str]] = {}
    asked = "test" if split == "must" else split
    searched = [file for file in attributes if split == "must" or _PARTITIONS.get(partition.get(file, "")) == split]
    for file in searched:
        if file in identity and _PARTITIONS.get(partition.get(file, "")) == asked:
            people.setdefault(identity[file], []).append(file)

    def queries() -> Iterator[ComposedQuery]:
        for files in people.values():
            for file in files:
                others = [other for other in files if other != file]
                changes = {attributes[other] - attributes[file] for other in others}
                drawable = sorted(sorted(change) for change in changes if 0 < len(change) <= _MOST_CHANGES)
                if not drawable:
                    continue
                wanted = drawable[int.from_bytes(hashlib.sha256(file.encode()).digest()[:8]) % len(drawable)]
                relevant = frozenset(other for other in others if attributes[other].issuperset(wanted))
                yield ComposedQuery(
                    file, (QueryPicture(base / file),), (_listed(wanted),), relevant, excluded=frozenset({file})
                )

    return finish(
        folder,
        {file: base / file for file in searched},
        queries(),
        split=split,
        metrics=_RECALL,
        texts={file: ", ".join(sorted(attributes[file])) for file in searched},
        picture_spaces=picture_spaces,
    )


def _pairs(folder: Folder, *places: str) -> Iterator[tuple[str, str]]:
    """Yield (file, value) of each line of a table of two columns."""
    for line in folder.lines(folder.file(*places)):
        cells = line.split()
        file = safe_name(cells[0]) if len(cells) == 2 else None
        if file is None:
            folder.malformed()
        else:
            yield file, cells[1]


def _face_attributes(folder: Folder) -> dict[str, frozenset[str]]:
    """Return file -> names of its attributes, in lower case with spaces."""
    path = folder.file("Anno/list_attr_celeba.txt", "list_attr_celeba.txt")
    lines = folder.lines(path)
    next(lines, None)  # the number of pictures
    names = [name.replace("_", " ").lower() for name in next(lines, "").split()]
    if not names or "1" in names or "-1" in names:
        raise folder.unreadable(path, "its second line does not name the attributes")
    attributes: dict[str, frozenset[str]] = {}
    for line in lines:
        cells = line.split()
        file = safe_name(cells[0])
        if file is None or len(cells) != len(names) + 1 or not {"1", "-1"}.issuperset(cells[1:]):
            folder.malformed()
        else:
            attributes[file] = frozenset(name for name, cell in zip(names, cells[1:], strict=True) if cell == "1")
    return attributes


def read_shopping100k(root: Path, split: str | None) -> ComposedSet:
    """Read Shopping100k; the words say which values replace which, and pictures with exactly the wanted labels are right.

    The published files number attributes and values. Their names are taken from `attr_names.txt` if there is one. The label of
    a query is its garment's category, so that weights can be moved from one category to another (MUST, table XXI).

    Args:
        root: The folder.
        split: test only, the one with published queries.
    """
    check_split("shopping100k", split, ("test",))
    folder = Folder("shopping100k", root, _SHOP_LAYOUT)
    columns = _columns(folder)
    files = [safe_name(line.strip()) for line in folder.lines(folder.file(*_shop("imgs_test")))]
    valued = _valued(folder, "labels_test", len(columns))
    wanted_values = _valued(folder, "gt_test", len(columns))
    references = [row[0] for row in _numbers(folder, folder.file(*_shop("ref_test")))]
    for (one, first), (other, second) in (
        (("imgs_test", len(files)), ("labels_test", len(valued))),
        (("ref_test", len(references)), ("gt_test", len(wanted_values))),
    ):
        if first != second:
            raise folder.unreadable(folder.file(*_shop(one)), f"it has {first} lines, and {other}.txt has {second}")
    described = [(file, values) for file, values in zip(files, valued, strict=True) if file is not None]
    folder.malformed(len(files) - len(described))
    alike: dict[frozenset[int], set[str]] = {}
    for name, values in described:
        alike.setdefault(values, set()).add(name)
    right = {values: frozenset(names) for values, names in alike.items()}

    def queries() -> Iterator[ComposedQuery]:
        for number, (reference, wanted) in enumerate(zip(references, wanted_values, strict=True)):
            file = files[reference] if 0 <= reference < len(files) else None
            if file is None or wanted == valued[reference]:
                folder.malformed()
                continue
            yield ComposedQuery(
                str(number),
                (QueryPicture(root / file),),
                (_replaced(valued[reference], wanted, columns),),
                right.get(wanted, frozenset()),
                excluded=frozenset({file}),
                labels=tuple(columns[column][1] for column in sorted(wanted) if columns[column][0] == 0)[:1],
            )

    return finish(
        folder,
        {name: root / name for name, _ in described},
        queries(),
        split="test",
        metrics=_RECALL,
        texts={name: ", ".join(columns[column][1] for column in sorted(values)) for name, values in described},
    )


def _shop(name: str) -> tuple[str, str]:
    """Return the places where a file of the split may lie."""
    return f"{name}.txt", f"splits/Shopping100k/{name}.txt"


def _valued(folder: Folder, name: str, columns: int) -> list[frozenset[int]]:
    """Return the columns that are 1 in each line of a table of one-hot labels."""
    path = folder.file(*_shop(name))
    rows = _numbers(folder, path)
    if any(len(row) != columns for row in rows):
        raise folder.unreadable(path, f"not every line has {columns} numbers")
    return [frozenset(number for number, cell in enumerate(row) if cell == 1) for row in rows]


def _numbers(folder: Folder, path: Path) -> list[list[int]]:
    try:
        return [[int(float(cell)) for cell in line.replace(",", " ").strip("[] ").split()] for line in folder.lines(path)]
    except ValueError as error:
        raise folder.unreadable(path, f"it holds more than numbers: {error}") from error


def _columns(folder: Folder) -> list[tuple[int, str]]:
    """Return (attribute, name of the value) of each column of the one-hot labels."""
    sizes = [size for row in _numbers(folder, folder.file(*_shop("attr_num"))) for size in row]
    numbered = [(attribute, value) for attribute, size in enumerate(sizes) for value in range(size)]
    path = folder.optional_file(*_shop("attr_names"))
    if path is None:
        return [(attribute, f"value {value + 1} of attribute {attribute + 1}") for attribute, value in numbered]
    names = [one_line(line) for line in folder.lines(path)]
    if len(names) != len(numbered):
        raise folder.unreadable(path, f"it names {len(names)} columns, and attr_num.txt counts {len(numbered)}")
    return [(attribute, name) for (attribute, _), name in zip(numbered, names, strict=True)]


def _replaced(before: frozenset[int], after: frozenset[int], columns: list[tuple[int, str]]) -> str:
    """Return the change in the paper's words: `replace gray color with white color and …`."""
    changes = []
    for attribute in dict.fromkeys(columns[column][0] for column in sorted(before ^ after)):
        old, new = (
            " ".join(columns[column][1] for column in sorted(values) if columns[column][0] == attribute)
            for values in (before - after, after - before)
        )
        changes.append(f"replace {old} with {new}" if old and new else f"add {new}" if new else f"remove {old}")
    return " and ".join(changes)


def _listed(words: list[str]) -> str:
    """Return the words as a sentence lists them: `a, b and c`."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
