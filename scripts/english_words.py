"""Builder of `core/lodestone/data/words/english.txt`: English words that the list with counts does not have.

    python -m scripts.english_words --scowl DIR --wordnet DIR --brands nsi.json --companies FILE [FILE ...]

- `--scowl`: word lists of SCOWL (Debian package `scowl`, `/usr/share/dict/scowl`): words up to size 70 in all spellings, usual
  variants up to size 60, names up to size 70.
- `--wordnet`: the database of WordNet 3.0 (Debian package `wordnet-base`, `/usr/share/wordnet`): nouns for what can be seen.
- `--brands`: `dist/json/nsi.json` of the npm package `name-suggestion-index`: brands of shops that two countries or more have.
- `--companies`: word lists of the npm packages `@cspell/dict-companies` and `@cspell/dict-gaming-terms`.

Names and rare words of fewer than five letters are left out: too many slips of the keyboard look like one. So are regular
plurals, which are known by rule. `data/words/SOURCES.md` holds the licences.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lodestone.text_encoders.english import english_counts
from lodestone.text_encoders.plain import without_accents

TARGET: Final = Path(__file__).parents[1] / "core" / "lodestone" / "data" / "words" / "english.txt"
COMMON_SIZE: Final = 50  # size of SCOWL up to which a word may be a correction
WORD_SIZE: Final = 70
SHORT_WORD_SIZE: Final = 60  # of words of any length
VARIANT_SIZE: Final = 60
NAME_SIZE: Final = 70
_SHORTEST: Final = 3  # letters of a word
_SHORTEST_RARE: Final = 5  # letters of a name or of a rare word
_LEAST_COUNTRIES: Final = 2  # that have a brand
_SPELLINGS: Final = ("english", "american", "british", "british_z", "canadian", "australian")
_VARIANTS: Final = tuple(
    f"{prefix}variant_{rank}" for prefix in ("", "british_", "canadian_", "australian_") for rank in (1, 2)
)
# Numbers of WordNet's lexicographer files: animals, artefacts, body, food, objects, persons, phenomena, plants, substances.
_SEEN: Final = frozenset({5, 6, 8, 13, 17, 18, 19, 20, 27})
_TAXON: Final = re.compile(
    r"\b(?:genus|genera|family|families|suborder|order|superfamily|subfamily|phylum|class|subclass|division|kingdom|taxonomic)\b"
)
_LETTERS: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_HEADING: Final = """\
# English words that the list with counts (`symspellpy`) does not have; made by `python -m scripts.english_words`.
# Sources and licences: SOURCES.md. Words under [common] may be corrections; those under [known] are only never corrected.
"""


def scowl(folder: Path, spellings: tuple[str, ...], kinds: tuple[str, ...], size: int) -> set[str]:
    """Return the words of SCOWL's files of some spellings and kinds, up to a size."""
    words: set[str] = set()
    for path in folder.iterdir():
        match = re.fullmatch(r"(.+?)-([a-z-]+)\.(\d+)", path.name)
        if match and match[1] in spellings and match[2] in kinds and int(match[3]) <= size:
            words |= plain(path.read_text("latin1"))
    return words


def wordnet(folder: Path) -> set[str]:
    """Return the words of WordNet's nouns for what can be seen, without the Latin names of families and the like."""
    words: set[str] = set()
    for line in (folder / "data.noun").read_text("latin1").splitlines():
        if line.startswith("  "):
            continue  # the licence
        fields, _, gloss = line.partition("|")
        parts = fields.split()
        if int(parts[1]) not in _SEEN:
            continue
        is_taxon = _TAXON.search(gloss[:70]) is not None
        lemmas = parts[4 : 4 + 2 * int(parts[3], 16) : 2]
        for part in (part for lemma in lemmas for part in lemma.split("_")):
            if not (is_taxon and part[0].isupper()):
                words |= plain(part)
    return words


def brands(path: Path) -> set[str]:
    """Return the words of the names of brands that several countries have."""
    words: set[str] = set()
    for kind, entry in json.loads(path.read_text("utf-8"))["nsi"].items():
        for item in entry.get("items", []) if kind.startswith("brands/") else []:
            countries = item["locationSet"].get("include", [])
            if "001" in countries or len(countries) >= _LEAST_COUNTRIES:  # 001: the world
                names = [item["displayName"], *(item["tags"].get(tag, "") for tag in ("brand", "name", "brand:en", "name:en"))]
                words |= plain(" ".join(names))
    return words


def plain(text: str) -> set[str]:
    """Return the words of a text in small Latin letters, without accents, apostrophes and possessive endings."""
    words = (without_accents(match.group().casefold()).replace("’", "'") for match in _LETTERS.finditer(text))
    words = (word.removesuffix("'s").replace("'", "") for word in words)
    return {word for word in words if len(word) >= _SHORTEST and word.isascii() and word.isalpha()}


def lines(common: set[str], known: set[str]) -> Iterator[str]:
    """Yield the lines of the file: two sorted sections, without words that the list with counts has or that are plurals."""
    counts = english_counts()
    common = common - counts.keys()
    known = known - counts.keys() - common
    singulars = counts.keys() | common | known
    known = {word for word in known if not (word.endswith("s") and not word.endswith("ss") and word[:-1] in singulars)}
    yield from _HEADING.splitlines()
    yield from ("[common]", *sorted(common), "[known]", *sorted(known))


def main() -> None:
    """Build the file from the sources on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scowl", type=Path, required=True)
    parser.add_argument("--wordnet", type=Path, required=True)
    parser.add_argument("--brands", type=Path, required=True)
    parser.add_argument("--companies", type=Path, nargs="+", required=True)
    options = parser.parse_args()
    common = scowl(options.scowl, _SPELLINGS, ("words",), COMMON_SIZE)
    known = scowl(options.scowl, _SPELLINGS, ("words",), SHORT_WORD_SIZE)
    known |= scowl(options.scowl, _VARIANTS, ("words", "upper"), VARIANT_SIZE)
    rare = scowl(options.scowl, _SPELLINGS, ("words",), WORD_SIZE) | wordnet(options.wordnet) | brands(options.brands)
    rare |= scowl(options.scowl, _SPELLINGS, ("upper", "proper-names"), NAME_SIZE)
    for path in options.companies:
        rare |= plain("\n".join(line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")))
    known |= {word for word in rare if len(word) >= _SHORTEST_RARE}
    TARGET.write_text("\n".join(lines(common, known)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
