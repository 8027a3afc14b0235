"""A reason as data: a code with its facts. Text is made of it where it is printed, and nowhere else.

Reason.of(Code.OVER_BUDGET, budget_bytes=1 << 30)      code "over_budget", printed "over budget-bytes: 1.0 GiB left …"
Reason.of("sleeping", "due in {wait_ms:ms}", wait_ms=7_200_000)      of a policy from another package
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.text.template import fill, names_in

Fact = int | float | str | tuple[int | float | str, ...]


def between(values: npt.NDArray[Any]) -> tuple[int | float, int | float]:
    """The least and the greatest of some values, as a fact."""
    return values.min().item(), values.max().item()


def _require(code: str, sentence: str, names: Collection[str]) -> None:
    """Raises ValueError where a sentence needs a fact that is missing."""
    needed = code.needed if isinstance(code, Code) else names_in(sentence)
    if missing := needed - set(names):
        raise ValueError(f"{code}: its sentence needs {', '.join(sorted(missing))}")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is done, left, or failed.

    code       a :class:`Code`, or the code of another package's own
    names      of its facts, sorted; a name ends with the unit of its value: ``_bytes``, ``_ms``; shares are fractions
    values     of its facts, in the order of ``names``; a pair of numbers is a range
    sentence   of a code of another package, its text with the names of facts in braces; else empty
    also       further reasons, which hold at the same time
    """

    code: str
    names: tuple[str, ...] = ()
    values: tuple[Fact, ...] = ()
    sentence: str = ""
    also: tuple[Reason, ...] = ()

    @classmethod
    def of(cls, code: str, sentence: str = "", /, **facts: Fact) -> Reason:
        """A reason with its facts; ValueError where the sentence needs a fact that is missing.

        Another package brings the ``sentence`` of its own codes along.
        """
        if isinstance(code, Code) == bool(sentence):
            raise ValueError(f"{code}: a Code has its own sentence, any other code needs one")
        _require(code, sentence, facts.keys())
        names = tuple(sorted(facts))
        return cls(code, names, tuple(facts[name] for name in names), sentence)

    @classmethod
    def each(cls, code: Code, /, **facts: Sequence[Fact]) -> list[Reason]:
        """A reason for each row of the columns ``facts``, as :meth:`of` makes it; a plan may have 10⁵ of them."""
        _require(code, "", facts.keys())
        names = tuple(sorted(facts))
        return [cls(code, names, row) for row in zip(*(facts[name] for name in names), strict=True)]

    @property
    def facts(self) -> dict[str, Fact]:
        """Its facts by name."""
        return dict(zip(self.names, self.values, strict=True))

    def plus(self, *more: Reason) -> Reason:
        """This reason, and others that hold too; one that is there already is not repeated."""
        alone = replace(self, also=()) if self.also else self
        also = list(self.also)
        for other in more:
            if other not in (self, alone) and other not in also:
                also.append(other)
        return Reason(self.code, self.names, self.values, self.sentence, tuple(also))

    @property
    def codes(self) -> tuple[str, ...]:
        """Its code, and those of the reasons that hold too."""
        return (self.code, *(code for other in self.also for code in other.codes))

    def __getitem__(self, name: str) -> Fact:
        """The value of a fact; KeyError."""
        return self.facts[name]

    def __lt__(self, other: Reason) -> bool:
        """By code, then by facts as text: those of other packages may have any type."""
        return (self.code, repr(self)) < (other.code, repr(other))

    def __str__(self) -> str:
        """The text: one sentence, or several with semicolons between them; a colon before why a verb is not due."""
        sentence = self.code.sentence if isinstance(self.code, Code) else self.sentence
        parts = [fill(sentence, self.facts), *map(str, self.also)]
        if self.code == Code.VERB_NOT_DUE:
            parts[:2] = [": ".join(parts[:2])]
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: code, facts and text, and what else there is."""
        plain: dict[str, Any] = {"code": str(self.code), "facts": self.facts, "text": str(self)}
        if self.sentence:
            plain["sentence"] = self.sentence
        if self.also:
            plain["also"] = [other.to_dict() for other in self.also]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Reason:
        """Inverse of :meth:`to_dict`; raises ValueError, TypeError or KeyError for what is no reason."""
        code, sentence = str(plain["code"]), str(plain.get("sentence", ""))
        facts = {name: tuple(v) if isinstance(v, list) else v for name, v in plain["facts"].items()}
        made = cls.of(code if sentence else Code[code.upper()], sentence, **facts)
        return made.plus(*(cls.from_dict(other) for other in plain.get("also", ())))
