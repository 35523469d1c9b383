"""How many registers of a thread hold values that are still needed, at most: read from PTX, before ptxas runs.

    ld.global.v2.u32 {%r1, %r2}, [%rd4];      4 words: %r1, %r2, %rd4
    add.f32 %r3, %r1, %r2;                    3 words: %r3, %rd4
    st.global.u32 [%rd4], %r3;

Live variables as in any compiler (Aho, Lam, Sethi, Ullman, "Compilers", section 9.2.5), in the order that NVVM printed.
ptxas moves instructions about, so that the figure is a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

_LINE = re.compile(
    r"^\s*(?:(\$\w+):"  # a label; or the guard, the name, the first operand and the others of an instruction
    r"|(@!?%\w+\s+)?([a-z][\w.:]*)\s*(\{[^}\n]*\}|[^,;\n]*)([^;\n]*);)",
    re.MULTILINE,
)
_REGISTER = re.compile(r"%(?:rd|fd|rs|r|f)\d+")  # predicates have a file of their own
_TARGET = re.compile(r"\$\w+")
_ENDS = ("bra", "ret", "exit", "trap")
_WIDE = ("%rd", "%fd")


@dataclass(slots=True)
class _Block:
    """Instructions that run one behind the other, each as (registers written, registers read), and what may follow."""

    instructions: list[tuple[list[str], list[str]]] = field(default_factory=list)
    following: list[str | int] = field(default_factory=list)

    def effect(self) -> tuple[set[str], set[str]]:
        """Registers that are written, and those that are read before."""
        written, read = set[str](), set[str]()
        for writes, reads in self.instructions:
            read.update([register for register in reads if register not in written])
            written.update(writes)
        return written, read


@lru_cache(maxsize=16)  # asked for every bound that a kernel may be assembled with
def pressure(ptx: str) -> int:
    """Words of 32 bits in registers, the most at any place of the only kernel of `ptx`."""
    blocks, labels = _blocks(ptx)
    effects = [block.effect() for block in blocks]
    entering = [read for _, read in effects]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            written, read = effects[number]
            live = (_behind(blocks[number], labels, entering) - written) | read
            changed = changed or live != entering[number]
            entering[number] = live
    return max([_most(block, _behind(block, labels, entering)) for block in blocks], default=0)


def _behind(block: _Block, labels: dict[str, int], entering: list[set[str]]) -> set[str]:
    """Registers that hold something needed at the end of a block."""
    found = set[str]()
    for following in block.following:
        number = labels.get(following, len(entering)) if isinstance(following, str) else following
        if number < len(entering):
            found |= entering[number]
    return found


def _most(block: _Block, live: set[str]) -> int:
    """Words at the fullest place of a block, behind which `live` are needed."""
    words = most = sum(map(_words, live))
    for written, read in reversed(block.instructions):
        for register in written:
            if register in live:
                live.remove(register)
                words -= _words(register)
        for register in read:
            if register not in live:
                live.add(register)
                words += _words(register)
        most = max(most, words)
    return most


def _words(register: str) -> int:
    return 2 if register.startswith(_WIDE) else 1


def _blocks(ptx: str) -> tuple[list[_Block], dict[str, int]]:
    """The blocks of a kernel in order, and those that have labels."""
    blocks, labels, registers = [_Block()], dict[str, int](), _REGISTER.findall
    for found in _LINE.finditer(ptx, ptx.find("\n{")):
        label, guard, name, first, rest = found.groups()
        block = blocks[-1]
        if label:
            block.following.append(len(blocks))
            labels[label] = len(blocks)
            blocks.append(_Block())
        elif name.startswith(_ENDS):
            block.following += _TARGET.findall(first)
            block.following += [len(blocks)] if guard else []
            blocks.append(_Block())
        elif guard or first.startswith("["):  # what is written under a condition may keep its value
            block.instructions.append(([], registers(first + rest)))
        else:
            block.instructions.append((registers(first), registers(rest)))
    return blocks, labels
