"""The reader accepts what bash accepts and refuses what bash refuses."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest
from stream_guard_shell.syntax.scanner import RefusedTextError, Script

ACCEPTED = (
    "",
    " ",
    "# only a comment",
    "a",
    "a;",
    "a &",
    "a & b",
    "a && b || c",
    "a | b |& c",
    "! a",
    "time a",
    "! ! a",
    "a\n\nb",
    "a &&\nb",
    "a |\nb",
    "(a; b)",
    "{ a; b; }",
    "{ a\n}",
    "( (a) )",
    "((x = 1))",
    "a > f 2>&1 < g >> h",
    "> f",
    "a <<< b",
    "a &> f",
    "a <<E\nx\nE",
    "a <<E\nx",
    "a <<-E\n\tx\n\tE\nb",
    "a <<'E' | b\n$(\nE",
    "a <<E <<F\n1\nE\n2\nF",
    "if a; then b; fi",
    "if a; then b; elif c; then d; else e; fi",
    "while a; do b; done",
    "until a\ndo b\ndone",
    "for x in a b; do c; done",
    "for x; do c; done",
    "for x in; do c; done",
    "for ((i=0; i<3; i++)); do a; done",
    "select x in a; do b; done",
    "case x in a) b ;; c|d) e ;; esac",
    "case x in (a) b ;& c) ;; esac",
    "case x in esac",
    "f() { a; }",
    "f() (a)",
    "function f { a; }",
    "function f() { a; }",
    "f()\n{ a; }",
    "[[ a == b* && ! -f c ]]",
    "[[ a =~ ^(b|c)+$ ]]",
    "[[ -n $x ]] || a",
    "x=1",
    "x=1 a",
    "x=(a b)",
    "x+=(c)",
    "x[1]=2",
    "declare -a x=(a b)",
    'a $(b) `c` $((1 + 2)) ${x:-y} ${x##*/} "$(d "e")"',
    "a $(b $(c `d`))",
    "a <(b) >(c)",
    "a 'b' \"c\" $'d\\'e' $\"f\"",
    "a {b,c} {1..3}",
    "{rm,-rf,x}",
    "a \\\n b",
    "a b#c",
    "coproc a",
    "coproc x { a; }",
    "a; # comment",
    "echo }",
    "echo if",
    "a $(case x in y) z ;; esac)",
    "a ${x[0]} ${!x} ${#x} ${x/a/b} ${x:1:2}",
    "{ a; } > f",
    "if a; then b; fi | c",
    "a $",
    "a $%",
    "trap 'x' EXIT",
    'echo ${x:-"a b"}',
    "a `b \\`c\\``",
)
REFUSED = (
    ";",
    "&",
    "&& a",
    "a &&",
    "a ||",
    "a |",
    "| a",
    "a ;; b",
    "a ; ; b",
    "a & & b",
    "(",
    ")",
    "()",
    "(a",
    "a)",
    "{ a",
    "{ }",
    "}",
    "if",
    "if a",
    "if a; then",
    "if a; then b",
    "fi",
    "then",
    "do",
    "done",
    "while a; do",
    "while a; done",
    "for in x; do",
    "for x in a",
    "case x in a) b",
    "case x",
    "esac",
    "f(",
    "f() ",
    "f() a",
    "function",
    "a (b)",
    "a < ",
    "a >",
    "a > ;",
    "a 'b",
    'a "b',
    "a `b",
    "a $(b",
    "a ${b",
    "a $((1",
    "if ; then a; fi",
    "( )",
    "a b (c)",
    "(a) b",
    "{ a; } b",
    "for x in a; b; done",
    "x=(a",
    "echo $(if)",
    "else",
    "a &&& b",
    "a ||| b",
    'echo "${x:-\'}"',
    "[[ a",
)
PIECES = (
    "a ",
    "b c",
    "'",
    '"',
    "$(",
    "`",
    ")",
    "(",
    "{ ",
    "}",
    ";",
    "\n",
    "&&",
    "||",
    "|",
    "&",
    "if ",
    "then ",
    "fi ",
    "do ",
    "done ",
    "while ",
    "for x in ",
    "case x in ",
    "esac ",
    ";;",
    " <f ",
    ">f ",
    "$x",
    "${x:-",
    "((",
    "))",
    "! ",
    "\\",
    " ",
    "#",
    " x=",
    "f()",
    "2>&1 ",
    "$((",
    "*",
)


def accepts(text: str) -> bool:
    script = Script(text, 0)
    try:
        while script.next_line(extended_globs=False) is not None:
            pass
    except RefusedTextError:
        return False
    return True


def bash_accepts(text: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_bash_accepts_is_accepted(text: str) -> None:
    assert accepts(text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_bash_refuses_is_refused(text: str) -> None:
    assert not accepts(text)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to compare with")
def test_the_lists_are_what_bash_says() -> None:
    wrong = [text for text in ACCEPTED if not bash_accepts(text)] + [text for text in REFUSED if bash_accepts(text)]
    assert not wrong


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to compare with")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_made_texts_are_accepted_as_bash_accepts_them(seed: int) -> None:
    """At most one in a hundred differs: what bash reads only when it runs, such as what stands in array subscripts."""
    made = random.Random(seed)
    count = 400 if seed == 1 else 20_000
    texts = ["".join(made.choice(PIECES) for _ in range(made.randint(1, 9))) for _ in range(count)]
    different = [text for text in texts if accepts(text) != bash_accepts(text)]
    assert len(different) <= count / 100, different[:20]
