"""Which entries come nearest to a wish: by shared words, rarer ones first, and by shared subjects."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import log
from typing import Final, NamedTuple

from stream_guard.judge.rule import RuleType
from stream_guard.policy.convert import write_yaml
from stream_guard.policy.document import read_document

# Words of a wish: their stems, and the subjects of the field that they speak of.
#
# Two words that say the same here (`erase` and `wipe`) share a subject. A subject counts for less than the word itself,
# so that who says `refund` is shown refunds before other payments.


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LONGEST: Final = 2000  # characters of a text that are read
_WORD: Final = re.compile(r"[a-z]+|[0-9]+")
# Signs and spellings that would fall apart into letters, or say nothing without their sign.
_SPELLINGS: Final = (
    (re.compile(r"\be-mail"), "email"),
    (re.compile(r"\bsub[- ]agent"), "subagent"),
    (re.compile(r"\bfollow[- ]?ups?\b|\bfollow(?:ed|s|ing)? up\b"), "followup"),
    (re.compile(r"\bhand(?:s|ed|ing)?[- ]?(?:offs?|overs?)\b"), "handoff"),
    (re.compile(r"\bcall(?:s|ed|ing)? (?:\w+ )?back\b|\bcallbacks?\b"), "callback"),
    (re.compile(r"\bsign(?:s|ed)?[- ]?off\b"), "approve"),
    (re.compile(r"\b(?:made|makes?|making)[- ]up\b"), "invent"),
    (re.compile(r"\blog(?:s|ged)?[- ]?in\b"), "login"),
    (re.compile(r"\bcut(?:s|ting)? (?:off|short)\b"), "truncated"),
    (re.compile(r"\bread[- ]only\b"), "readonly"),
    (re.compile(r"\brm -\w+"), "rm"),
    (re.compile(r"[$€£¥]"), " dollar "),
    (re.compile(r"%"), " percent "),
    (re.compile("n[\u2019']t\\b"), " not"),
    (re.compile("[\u2019']s\\b|[\u2019']"), " "),
)
# What every wish has, and what says nothing about which wish it is.
_EMPTY: Final = _listed(
    "a an the of to in on at by for with and or nor but is are be been being am was were it its itself this that these "
    "those i my mine we our ours us you your he him his she her they them their there here who whom whose which what "
    "must should shall may might can could would will never not no none do does did dont t s any anything some "
    "something every everything all each just also very really simply please want wish like need make sure let lets "
    "have has had get gets got than as so if then when whenever while from into about per until still ever even how "
    "agent agents bot bots ai assistant llm thing things stuff way d ll re ve m am"
)
_IRREGULAR: Final = {
    "sent": "send", "paid": "pay", "spent": "spend", "bought": "buy", "wrote": "write", "written": "write",
    "ran": "run", "said": "say", "told": "tell", "gave": "give", "given": "give", "lost": "lose", "people": "person",
    "went": "go", "goes": "go", "gone": "go", "kept": "keep", "done": "finish", "forgot": "forget",
    "forgotten": "forget", "hung": "hang", "shown": "show", "seen": "see", "saw": "see", "broke": "break",
    "broken": "break", "took": "take", "taken": "take", "threw": "throw", "thrown": "throw", "began": "begin",
    "stuck": "stuck", "froze": "freeze", "frozen": "freeze", "chose": "choose", "spoke": "speak", "spoken": "speak",
    "lying": "lie", "less": "less", "always": "always", "previous": "previous", "access": "access",
    "address": "address", "process": "process", "business": "business", "redis": "redis", "https": "https",
}  # fmt: skip
_ENDINGS: Final = (
    ("ations", ""), ("ation", ""), ("itions", ""), ("ition", ""), ("ions", ""), ("ion", ""), ("ments", ""),
    ("ment", ""), ("ings", ""), ("ing", ""), ("ised", "iz"), ("ises", "iz"), ("ise", "iz"), ("ized", "iz"),
    ("izes", "iz"), ("ize", "iz"), ("ated", ""), ("ates", ""), ("ate", ""), ("vals", "v"), ("val", "v"),
    ("sals", "s"), ("sal", "s"), ("ied", "y"), ("ies", "y"), ("edly", ""), ("ed", ""), ("ers", "er"), ("es", ""),
    ("ly", ""), ("s", ""), ("e", ""),
)  # fmt: skip
# The first word of a line names the subject. A word may speak of several.
_SUBJECTS: Final = """
delete remove erase wipe destroy destructive purge trash rm drop truncate empty discard nuke unlink lose clean kill
money dollar usd euro eur pound cash fund cent buck bank wallet financial
pay payment transfer wire purchase buy payout reimburse remit disburse charge settle refund withdraw invoice
refund reimburse payback chargeback return back
amount sum total price value number figure
cost spend budget expense expensive bill price usd dollar euro money cheap burn
mail email message sms text notification notify letter newsletter inbox write
send forward deliver dispatch transmit post publish tweet mail
recipient address addressee receiver domain
spam flood burst storm bombard mass bulk
secret password credential token key passphrase env ssh pem vault apikey confidential private
tokens token context window usage
personal pii privacy gdpr private phone email ssn name birth data information sensitive detail
card credit debit pan iban pci account
person human manager supervisor reviewer someone somebody me boss staff operator colleague man
approve permission consent authorize authorise authorization okay ok confirm confirmation agree accept yes ask allow
confirm confirmation agree yes okay accept approve
refuse deny reject forbid disallow prohibit ban denial
block stop prevent forbid ban prohibit avoid
verify check validate identify authenticate login identity prove confirm
identity who authenticate login verify caller
loop repeat circle cycle endless forever stuck infinite again round over same spin
retry try attempt fail failure error hammer broken again
fail failure error crash exception down break broken outage 5xx
limit max maximum cap most ceiling quota exceed more over above budget many much often least too
rate minute second throttle burst window short hour overload frequency
day daily midnight tomorrow today 24
slow latency quick fast second delay respond response time wait late speed
stall hang freeze silent stuck idle dead timeout inactive unresponsive progress quiet
turn step round iteration long
test pytest suite unit ci
finish complete ready success succeed fix end
claim say tell lie pretend state report false
promise callback followup announce later
follow after afterwards next later followup
before first prior ahead precede
json schema format structured parse xml yaml machine field
word phrase term language profanity swear curse insult topic competitor mention talk say
short long length brief character verbose ramble concise size
source cite citation reference link url footnote
invent hallucinate fabricate imaginary nonexistent ground fact exist fake
tool function api mcp plugin capability endpoint
list whitelist allowlist allow restrict readonly
subagent delegate delegation spawn child worker nested fork
handoff pingpong forth back transfer escalate
inject injection malicious attacker hijack untrusted poison hacker stranger attack obey hidden
web website internet online net url browse page site download fetch curl
prompt instruction system rule
reveal leak expose disclose show print display repeat quote exfiltrate share output log
leave leak exfiltrate upload share outside outgoing external network third
attack jailbreak trick bypass manipulate hack
production prod live server infra infrastructure cluster cloud deploy kubernetes kubectl terraform aws bucket
install package dependency library module pip npm supply
root sudo admin administrator privilege superuser su
file folder directory path disk document home workspace project
git commit branch repo repository merge push pull
main master trunk branch
code script program command shell bash
run execute start launch
change edit modify update overwrite alter write switch different drift touch
unchanged same equal constant consistent stay remain
customer client user buyer shopper guest
order booking purchase reservation record
record database table row data sql postgres mysql query db
once twice duplicate double single same
parallel concurrent simultaneous time
hour office business weekend night working schedule monday sunday weekday evening clock holiday
model gpt provider version claude
answer reply response respond
guard permission setting hook monitor limit
skip bypass disable
truncated half incomplete unfinished middle
release publish deploy ship version
read open see look view access cat
summary close save note
"""


def _stem(word: str) -> str:
    known = _IRREGULAR.get(word)
    if known:
        return known.removesuffix("e") if len(known) > 3 else known
    if len(word) > 3 and not word.endswith("ss"):
        for ending, put in _ENDINGS:
            short = word.removesuffix(ending)
            if short != word and len(short) + len(put) > 2 and re.search("[aeiouy]", short):
                return _undoubled(short) + put
    return word


def _undoubled(word: str) -> str:
    doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls"
    return word[:-1] if doubled else word.removesuffix("e") if len(word) > 3 else word


def stems(text: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a text that say something, each with its stem."""
    folded = unicodedata.normalize("NFKC", text[:_LONGEST]).lower()
    for pattern, put in _SPELLINGS:
        folded = pattern.sub(put, folded)
    for word in _WORD.findall(folded):
        if word not in _EMPTY:
            yield word, _stem(word)


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for line in _SUBJECTS.strip().splitlines():
        for word in line.split():
            stem = _stem(word)
            table[stem] = tuple(dict.fromkeys((*table.get(stem, ()), line.split()[0])))
    return table


def subjects(stem: str) -> tuple[str, ...]:
    """Return the subjects that a stem speaks of."""
    return _table().get(stem, ())


_SUBJECT: Final = 0.5  # what a shared subject counts beside a shared word
_ASIDE: Final = 0.5  # what a word counts that stands in the remarks and in no phrasing
_SHORT: Final = 3  # letters of a stem that is too short to be a misspelt one
_TYPO: Final = 0.8  # how near an unknown word must be to a known one to be taken for it


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that a wish may mean: a recipe or a kind."""

    name: str
    phrasings: tuple[str, ...]
    remarks: str
    share: float = 1.0  # what its score counts for


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with how well it fits, up to 2, and the words that say so."""

    name: str
    score: float
    matched: tuple[tuple[str, str], ...]  # a word of the wish, and the word or subject that it shares


class _Text(NamedTuple):
    """The stems of a text, and the subjects that they speak of."""

    stems: frozenset[str]
    subjects: frozenset[str]


class _Weights:
    """How much each word and each subject tells, by how few candidates have it."""

    def __init__(self, held: Sequence[_Text]) -> None:
        self._most = len(held) + 1
        self._stems = Counter(stem for text in held for stem in text.stems)
        self._subjects = Counter(subject for text in held for subject in text.subjects)

    def known(self) -> list[str]:
        return sorted(self._stems)

    def of_stem(self, stem: str) -> float:
        return log(1 + self._most / (1 + self._stems[stem]))

    def of_subject(self, subject: str) -> float:
        return log(1 + self._most / (1 + self._subjects[subject]))


class Shelf:
    """What a wish may mean, with the words of each counted once."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._entries = [_read(candidate) for candidate in candidates]
        self._weights = _Weights([_joined([entry.everywhere, entry.aside]) for entry in self._entries])

    def find(self, wish: str) -> list[Ranked]:
        """Return what shares something with the wish, the best first."""
        asked = _asked(wish, self._weights)
        ranked = (_fit(entry, asked, self._weights) for entry in self._entries)
        return sorted((fit for fit in ranked if fit.score > 0), key=lambda fit: (-fit.score, fit.name))


class _Read(NamedTuple):
    """A candidate with its words read."""

    candidate: Candidate
    phrases: list[_Text]
    everywhere: _Text  # all phrases
    aside: _Text  # its remarks


def _read(candidate: Candidate) -> _Read:
    phrases = [_text(phrase) for phrase in candidate.phrasings]
    return _Read(candidate, phrases, _joined(phrases), _text(candidate.remarks))


def _text(text: str) -> _Text:
    found = frozenset(stem for _, stem in stems(text))
    return _Text(found, frozenset(subject for stem in found for subject in subjects(stem)))


def _joined(texts: Sequence[_Text]) -> _Text:
    return _Text(
        frozenset(stem for text in texts for stem in text.stems),
        frozenset(subject for text in texts for subject in text.subjects),
    )


def _asked(wish: str, weights: _Weights) -> dict[str, str]:
    """Return the stems of the wish with their words; a misspelt one becomes the known one that it is near to."""
    asked: dict[str, str] = {}
    known = weights.known()
    for word, stem in stems(wish):
        meant = [stem]
        if stem not in known and not subjects(stem) and len(stem) > _SHORT:
            alike = [one for one in known if one[0] == stem[0] and abs(len(one) - len(stem)) < 2]
            near = get_close_matches(stem, alike, n=1, cutoff=_TYPO)
            meant = near or meant
        asked.setdefault(meant[0], word)
    return asked


def _fit(entry: _Read, asked: dict[str, str], weights: _Weights) -> Ranked:
    """Score a candidate: how much of the wish all of it speaks of, and how like the wish its likest phrasing is."""
    whole = sum(map(weights.of_stem, asked)) or 1.0
    covered, matched = 0.0, []
    for stem, word in asked.items():
        said, shared = _shared(stem, entry.everywhere, weights)
        noted, noted_word = _shared(stem, entry.aside, weights)
        covered += max(said, _ASIDE * noted)
        matched.append((word, shared or noted_word))
    likest = max((_likeness(asked, phrase, whole, weights) for phrase in entry.phrases), default=0.0)
    score = entry.candidate.share * (covered / whole + likest)
    return Ranked(entry.candidate.name, score, tuple((word, shared) for word, shared in matched if shared))


def _likeness(asked: Iterable[str], phrase: _Text, whole: float, weights: _Weights) -> float:
    shared = sum(_shared(stem, phrase, weights)[0] for stem in asked)
    return 2 * shared / (whole + sum(map(weights.of_stem, phrase.stems)))


def _shared(stem: str, held: _Text, weights: _Weights) -> tuple[float, str]:
    """Return what a stem of the wish is worth where these are held, and the word or the subject that it shares."""
    if stem in held.stems:
        return weights.of_stem(stem), stem
    common = [subject for subject in subjects(stem) if subject in held.subjects]
    if not common:
        return 0.0, ""
    best = max(common, key=weights.of_subject)
    return _SUBJECT * min(weights.of_subject(best), weights.of_stem(stem)), best


# Recipes: a wish, other words for it, what to change, and a policy with tests that grants it.
#
# A recipe is a file of two parts with a line ``---`` between them. The first says what is wished for. The second is a
# policy as it is written, ready to paste. The folder that it stands in is its subject.


_SUFFIX: Final = ".yaml"
_BETWEEN: Final = "\n---\n"
_KIND: Final = re.compile(r"^ +(?:- )?kind: (\w+)$", re.MULTILINE)
_REMARK: Final = re.compile(r"^ +(?:- )?(?:reason|claim): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One wish and the policy that grants it."""

    name: str
    subject: str
    wish: str
    also: tuple[str, ...]  # the same wish, or one like it, in other words
    change: str  # what to change for one's own tools
    policy: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its rules, each once."""
        return tuple(dict.fromkeys(_KIND.findall(self.policy)))

    @property
    def remarks(self) -> list[str]:
        """What its rules say of themselves: reasons, and the claims of their tests."""
        return _REMARK.findall(self.policy)


def read_recipes() -> Mapping[str, Recipe]:
    """Return the recipes by name, in order of their subjects and names."""
    folders = (folder for folder in (files(__package__) / "recipes").iterdir() if folder.is_dir())
    found = ((folder.name, file) for folder in folders for file in folder.iterdir() if file.name.endswith(_SUFFIX))
    ordered = sorted(found, key=lambda each: (each[0], each[1].name))
    recipes = (_recipe(subject, file) for subject, file in ordered)
    return {recipe.name: recipe for recipe in recipes}


def _recipe(subject: str, file: Traversable) -> Recipe:
    head, policy = file.read_text(encoding="utf-8").split(_BETWEEN, 1)
    name = file.name.removesuffix(_SUFFIX)
    said = read_document(head, name).data
    return Recipe(name, subject, said["wish"], tuple(said["also"]), said["change"], policy)


# Kinds as entries of the cookbook, for wishes that no recipe grants: what a kind says of itself, and its cases.


_SHARE = 0.6  # a recipe is more use to whoever wishes than a kind that would do as well


def kind_summary(rule: RuleType) -> str:
    """Return the first sentence of what a kind says of itself."""
    return _described(rule).partition("\n")[0]


def kind_policy(rule: RuleType) -> str:
    """Return a policy with one rule of the kind: the parameters of its first case, and the cases that fit them."""
    first = rule.examples[0]
    tests = [
        {"claim": case.claim, "trace": list(case.trace), **({"hits": list(case.hits)} if case.hits else {})}
        for case in rule.examples
        if case.params == first.params
    ]
    name = rule.kind.replace("_", "-")
    return write_yaml({"rules": [{"id": name, "kind": rule.kind, "params": dict(first.params), "tests": tests}]})


def kind_candidate(rule: RuleType) -> Candidate:
    """Return a kind as something that a wish may mean."""
    claims = ". ".join(case.claim for case in rule.examples)
    fields = ". ".join(field.description or "" for field in rule.params_type.model_fields.values())
    phrasings = (kind_summary(rule), rule.kind.replace("_", " "))
    return Candidate(rule.kind, phrasings, f"{_described(rule)} {claims} {fields}", _SHARE)


def recipe_candidate(recipe: Recipe) -> Candidate:
    """Return a recipe as something that a wish may mean."""
    remarks = ". ".join([*recipe.remarks, recipe.change, *recipe.kinds])
    return Candidate(recipe.name, (recipe.wish, *recipe.also, recipe.name.replace("-", " ")), remarks)


def _described(rule: RuleType) -> str:
    return (inspect.getdoc(rule) or "").replace("``", "`")
