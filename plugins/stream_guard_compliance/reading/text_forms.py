"""Forms of text that a pattern sees, and the words by which prompts name them."""

from __future__ import annotations

from typing import Final

_FORMS: Final[dict[str, tuple[str, str]]] = {
    "code": (
        (
            "code | code blocks | code block | code snippets | code snippet | code fences | source code | "
            "markdown code fences | markdown code blocks | markdown fences"
        ),
        r"```",
    ),
    "emoji": (
        "emoji | emojis | emoticons | emoji characters",
        r"[\x{1F300}-\x{1FAFF}\x{1F1E6}-\x{1F1FF}\x{2705}\x{274C}\x{2728}\x{2764}\x{2B50}\x{26A0}]",
    ),
    "markdown": (
        "markdown | markdown formatting | markdown syntax | rich formatting | markdown format",
        r"(?m)```|^#{1,6} \S|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\([^)\n]+\)|^\|.*\|\s*$|^[-*] .*\n[-*] ",
    ),
    "lists": (
        "lists | bullet points | bullets | bulleted lists | numbered lists | bullet lists | list formatting",
        r"(?m)^\s*(?:[-*\x{2022}]|\d{1,2}[.)])\s+\S.*\n\s*(?:[-*\x{2022}]|\d{1,2}[.)])\s+\S",
    ),
    "headings": ("headings | headers | markdown headings | markdown headers", r"(?m)^#{1,6} \S"),
    "tables": ("tables | markdown tables", r"(?m)^\s*\|.*\|\s*$"),
    "links": ("links | urls | hyperlinks | web links | web addresses", r"https?://\S|\bwww\.\S|\]\(\S"),
    "asterisks": ("asterisk | asterisks", r"\*"),
    "backticks": ("backticks", "`"),
    "exclamations": ("exclamation points | exclamation marks | exclamation point | exclamation mark", "!"),
    "html": ("html | html tags | xml tags", r"</?[A-Za-z][\w-]*(?:\s[^<>]*)?/?>"),
    "json": ("raw json", r"^\s*[{\[]\s*[\"\[{]"),
    "parentheses": ("parentheses", r"\([^)\n]*\)"),
    "dashes": ("em dashes | em-dashes | em dash", r"\x{2014}"),
    "digits": ("", r"\d"),
    "question_end": ("", r"\?[\s\"')\]*_]*$"),
}
PATTERNS: Final = {name: pattern for name, (_, pattern) in _FORMS.items()}
NAMES: Final = {phrase: name for name, (phrases, _) in _FORMS.items() for phrase in phrases.split(" | ") if phrase}
PHRASES: Final = " | ".join(NAMES)
# Verbs with which code is said and not written into a file.
SAYS_CODE: Final = frozenset(
    ("output", "outputs", "outputting", "print", "show", "display", "return", "reply", "respond", "answer")
)
# Sorts of files that prompts speak of, and the endings of their names.
FILE_SORTS: Final = {
    "image": "png|jpe?g|gif|webp|bmp|tiff?|svg",
    "notebook": "ipynb",
    "markdown": "md|markdown",
    "documentation": "md|markdown|rst",
    "pdf": "pdf",
    "video": "mp4|mov|webm|mkv|avi",
}
