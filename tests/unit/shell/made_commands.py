"""Made commands: pieces of shell put together at random, and nested in ways that somebody hostile would."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

_TEXT: Final = r"""
rm -rf ~/x|$(|)|`|'|"|${x:-|}|{a,b|}|;|&&| || |&|(|)|{ |; }|if |; then |; fi|for i in a b; do |; done|while read l; do |
case $x in a) |;; esac|f() { |f |<<E
|E
|<<<|> out|>> log|2>&1|< in|<(|>(|$x|$((1+1))|$'\x41'|[[ |]]|((|))|x=1 |export Y=|bash -c '|eval |sh -c "|
python3 -c "import os; os.remove('|')"|node -e "|curl https://a.b/| -d @.env|git -C x push -f |find . -name '*.c' |
-exec |{} \;|xargs -I{} |sudo |env A=1 |ssh h '|docker run -v /:/x i |psql -c 'DROP TABLE t'|pip install |npx |
--checkpoint-action=exec=|alias ll=|trap '|cd ..|cd "$D"|\|#|!|*|~|é|[a-z]|-|--|=|:|$|$1|"$@"|${#x}|${!x}|${x[@]}|
x=(a b)|declare -p|set -- |local z=|"""
PIECES: Final = (*_TEXT.split("|"), "|", " ", "\u200b", "\ufeff", "\u2028", "\x01", "\0")
NESTS: Final = (
    ("( ", " )"),
    ("$(", ")"),
    ("{ ", "; }"),
    ('"$(', ')"'),
    ("`", "`"),
    ("${x:-", "}"),
    ("if ", "; then a; fi"),
    ("<(", ")"),
    ("((", "))"),
    ("$((", "))"),
    ("bash -c '", "'"),
    ("eval ", ""),
    ("sudo ", ""),
    ("env ", ""),
    ("{a,", "}"),
    ("[[ ", " ]]"),
    ("f() { ", "; }"),
    ("!", ""),
    ("a | ", ""),
    ("case x in x) ", ";; esac"),
    ("x=(", ")"),
    ("-", ""),
    ('python3 -c "', '"'),
)


def made_commands(seed: int, count: int) -> Iterator[str]:
    """Yield so many commands; the same for the same seed."""
    source = random.Random(seed)
    for number in range(count):
        if number % 10 == 0:
            before, after = source.choice(NESTS)
            depth = source.choice((3, 20, 70, 500))
            yield before * depth + source.choice(PIECES) + after * depth
        else:
            yield "".join(source.choice(PIECES) for _ in range(source.randint(1, 24)))


def growing_commands(size: int) -> Iterator[str]:
    """Yield commands of about this size whose reading would grow without bounds if nobody counted."""
    yield "a=x;" + "a=$a$a;" * (size // 7)
    yield "{a,b}" * (size // 5)
    yield "rm {1..99999999}"
    yield "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }};" for n in range(size // 25)) + "f0"
    yield "".join(f"for a{n} in 1 2 3 4 5 6 7 8; do " for n in range(60)) + "rm x" + "; done" * 60
    yield "{" * size
    yield "[" * size
    yield "$(" * size
    yield "rm " + "a/" * (size // 2)
    yield "rm " + "../" * (size // 3)
    yield "cat " + "*" * size
    yield "x=1;" * (size // 8) + "(:);" * (size // 8)
    yield "echo " + "a " * (size // 2) + "| xargs rm"
    yield "alias a='b';\n" * (size // 14) + "a"
    yield "cat <<E\n" + "$x\n" * (size // 4)
    yield "python3 -c '" + "(" * size + "'"
    yield "python3 -c '" + "-" * size + "1'"
    yield "python3 -c '" + "a." * (size // 2) + "b()'"
    yield "psql -c '" + "/*" * (size // 2) + "'"
    yield 'psql -c "' + "'" * size + '"'
    yield "node -e '" + "a(" * (size // 2) + "'"
    yield 'bash -c "' * (size // 9)
    yield "git " + "-C a " * (size // 5) + "push"
    yield "curl " + "https://" * (size // 8)
    yield "x" * size
    yield "a;" * (size // 2)
    yield "((" * (size // 2)
    yield "case x in " + "a) ;; " * (size // 6) + "esac"
    yield "if a; then D=1; fi;" * (size // 19) + "rm $D"
    yield "rm " + "$X" * (size // 2)
