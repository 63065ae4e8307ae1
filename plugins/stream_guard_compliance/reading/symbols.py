"""The words of the grammar: which words of a sentence are which symbol, and which say nothing.

A symbol is a sort of word that the productions of the grammar are made of. Words that are in no list are content:
the symbol ``W``. A production that leaves no place for content fits no sentence that has any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import re2

from stream_guard_compliance.reading.values import word_set

# Verbs that a prompt gives orders with, in the form that orders have.

VERBS: Final = word_set(
    "abide abort accept access accompany account achieve acknowledge act activate adapt add address adhere adjust "
    "adopt advise aggregate aim alert align allow alter always amend analyse analyze announce answer anticipate "
    "apologise apologize append apply approach approve archive arm arrange ask assemble assert assess assign assist "
    "assume assure attach attempt attribute authenticate automate avoid await award back base batch be bear begin "
    "believe benchmark bias bid bill blacklist blend block book break breathe bring browse build bump bundle buy "
    "calculate call cancel cap capture carry cast catch categorize cd cease chain change charge chat check check-in "
    "choose cite clarify classify clean clear click clone close collaborate collapse collect combine comment commit "
    "communicate compare compile complete comply compose compress compute concatenate conclude conduct configure "
    "confirm connect consider consolidate construct consult contact contextualize continue control convert convey "
    "coordinate copy correct correlate count cover craft create credit critique crop cross-check cross-reference "
    "customize cut deactivate debit debrief debug decide declare decline decode decompose deduce deduct dedupe "
    "deduplicate deep-dive deepen default defer define delegate delete deliver delve demonstrate deny depict deploy "
    "deposit deprioritize derive describe design detect determine develop diagnose dial differentiate dig dim direct "
    "disable disagree disambiguate disarm discard disclose discourage discover discuss dispatch dispense display "
    "disregard distill distinguish distribute dive divide do document double double-check download draft drag drain "
    "draw drop duplicate echo edit elaborate eliminate email embed embrace emit emphasize employ empower enable "
    "encapsulate encourage encrypt end enforce engage enhance enrich enroll ensure enter enumerate escalate escape "
    "establish estimate evaluate examine exceed exclude execute exercise exhaust exhibit exit expand expect explain "
    "explore export express extend extract fabricate fact-check fail fake fall favor favour feed feel fetch fight "
    "file fill filter finalise finalize find finish fix flag focus follow force forget fork format formulate forward "
    "fulfill gather gauge generate get give go grade grant greet ground group guarantee guess guide hallucinate halt "
    "hand hand-off hang handle harness hedge help hesitate hide highlight hold honor honour hover hypothesize identify "
    "ignore illustrate imagine impersonate implement imply import improve incorporate increase index indicate infer "
    "inform initialize initiate inject input inquire insert insist inspect install instruct integrate interact "
    "interpret interrupt interview introduce invent investigate invite invoice invoke isolate issue iterate join "
    "judge jump justify keep kill know label launch lead learn leave lecture let leverage lie limit link lint list "
    "listen load locate lock log look loop lower mail maintain make manage map mark match maximize measure meet "
    "memorize mention merge mimic mind minimize mirror misrepresent mix mock model modify monitor moralize move mute "
    "name narrate narrow navigate negotiate never normalize note notice notify obey obfuscate observe obtain offer "
    "omit open operate opt optimize order organize outline output override overwrite page paginate pair paraphrase "
    "parse partition pass paste patch pause pay perform permit persist personalize phone phrase pick pin ping place "
    "plan plot point populate post practice preface prefer prefix prepare prepend prescribe present preserve press "
    "pretend prevent print prioritise prioritize probe proceed process produce promise promote prompt proofread "
    "propose protect prove provide provision prune publish pull purge push put quantify quarantine query question "
    "quote raise rank rate re-do re-evaluate re-read re-run reach read reason reassign reassure rebase rebook reboot "
    "rebuild recall recap receive recheck recite recognize recommend reconcile reconfirm record recover redact "
    "redeploy redirect redo reduce refactor refer reference refine reflect reformulate refrain refund refuse "
    "register reissue reject relate relay release rely remain remember remind remit remove rename render reopen "
    "reorder reorganize repeat rephrase replace replicate reply report represent reproduce request require rerun "
    "reschedule research resend reset resize resolve resort respect respond restart restate restore restrict resume "
    "retain retest retrieve retry return reuse reveal revert review revise revoke rewrite rollback rotate round "
    "route run rush sample sanitize sanity-check save say scaffold scale scan schedule score scrape scroll search "
    "section secure see seek segment select self-check sell send separate sequence serialize serve set settle share "
    "shift ship shorten show shut sign simplify simulate skip sleep smile snooze solicit solve sort sound spawn "
    "speak specify speculate spell split squash stage stand start stash state stay steer step stick stop store "
    "stream stress strike strive structure study submit subscribe substitute subtract suggest summarise summarize "
    "supply support surface surround suspect suspend sustain swap swear sweep swipe switch sync synthesise "
    "synthesize tackle tag tailor take talk tap target teach tell term terminate test text thank think throw tidy "
    "tie toggle tokenize touch trace track trade train transcribe transfer transform transition translate transmit "
    "treat triage trigger trim truncate trust try tune turn type unblock uncover underline understand undertake undo "
    "unify unlock unmute unpack unpair unsubscribe update upgrade upload use utilise utilize validate value vary "
    "verify vet view visit visualize volunteer wait walk warn waste watch weave weigh welcome whitelist wire "
    "withdraw withhold wonder work worry wrap write yield zoom"
)
# Of these some are nouns as well, and a noun is the subject of a fact: "Output is shown".
BOTH: Final = word_set(
    "access account act address aim alert answer approach archive arm back base batch benchmark bias bill block book "
    "break build bundle call cap cast chain change charge chat check click clone close comment contact control copy "
    "count cover credit cut debit default delegate deposit design dispatch display document download draft drag draw "
    "drop edit email end estimate exercise exit export extract fake fall favor fight file fill filter find fix flag "
    "focus force fork format function group guarantee guess guide halt hand handle help highlight hold import "
    "increase index input insert interview invoice issue jump label launch lead leave limit link list load lock log "
    "look loop mail map mark match measure mention mind mix model monitor move name note notice offer open order "
    "outline output override page pass patch pause pay phone phrase pick place plan point post practice prefix "
    "present press print process produce prompt proof query question quote rank rate reason record reference refund "
    "refuse register release reply report request research respect result resume return review round route run "
    "sample scale scan schedule score search section secure sequence set share shift ship show sign sort sound split "
    "stage stand start state step stick stop store stream strike structure study subject support surface suspect "
    "switch tag tap target term test text tie touch trace track trade train transfer transform trigger trust try "
    "turn type update upgrade upload use value view visit wait walk waste watch welcome work wrap yield"
)
# Words before an order that change nothing about it.
OPENERS: Final = word_set(
    "absolutely accordingly actively additionally again also and autonomously briefly carefully clearly "
    "consistently continuously critical critically deeply directly effectively explicitly finally first furthermore "
    "gently gracefully hence here honestly immediately important instead just lastly likewise meanwhile "
    "methodically moreover naturally next note now ok okay only overall periodically please politely precisely "
    "proactively quickly rather regularly remember rigorously safely second secondly silently similarly simply so "
    "specifically still strictly systematically then therefore third thirdly thoroughly thus warning yes"
)


# Commands that prompts speak of in plain words, and the texts by which the arguments of a call show them.

_GIT: Final = r"\bgit\b[^|;&\n]*\s"
_DEEDS: Final[dict[str, tuple[str, str]]] = {
    "git commit": (
        (
            "commit | commits | committing | commit changes | commit your changes | commit the changes | commit code | "
            "make commits | create commits | create a commit | git commit | git commits | "
            "commit any changes | commit it"
        ),
        rf"{_GIT}commit\b",
    ),
    "git push": (
        (
            "push | pushing | push changes | push your changes | push the changes | push code | "
            "git push | push commits | "
            "push to remote | push to the remote | push to the remote branch | push to a remote "
            "branch | push to a remote | push changes to a remote repository | "
            "push to the remote repository | push to remote repositories | push any changes | push it | "
            "push to a remote repository | push changes to remote | push changes to the remote repository"
        ),
        rf"{_GIT}push\b",
    ),
    "git push --force": (
        "force push | force pushes | force-push | force pushing",
        rf"{_GIT}push\b[^|;&\n]*\s(?:--force\b|-f\b|--force-with-lease|\+)",
    ),
    "git commit --amend": (
        "amend | amend commits | amend a commit | amending commits",
        rf"{_GIT}commit\b[^|;&\n]*--amend",
    ),
    "git config": (
        (
            "update the git config | update git config | modify the git config | modify git "
            "config | change git config | "
            "change the git config | change the git configuration | modify git configuration | edit the git config | "
            "update git configuration | alter the git config | modify the git configuration | "
            "update the git configuration"
        ),
        r"\bgit\s+config\s+(?:--(?:global|local|system|add|unset|replace-all)\s+)*[A-Za-z][\w.-]*\s+[^\s|;&]",
    ),
    "gh pr create": (
        (
            "open a pull request | open pull requests | create a pull request | create pull requests | "
            "start a pull request | submit a pull request | create prs | open prs | create a pr | open a pr"
        ),
        r"\bgh\s+pr\s+create\b|\bglab\s+mr\s+create\b",
    ),
    "git rebase": ("rebase | rebasing | git rebase", rf"{_GIT}rebase\b"),
    "git checkout -b": (
        (
            "create branches | create new branches | create new git branches | create a branch | create a new branch | "
            "create git branches"
        ),
        rf"{_GIT}(?:checkout\s+-[bB]|switch\s+(?:-c|--create)|branch\s+[A-Za-z])",
    ),
    "--no-verify": (
        "skip hooks | skip git hooks | bypass hooks | skip pre-commit hooks | bypass pre-commit hooks",
        r"\s--no-verify\b",
    ),
    "install": (
        (
            "install packages | install dependencies | install new packages | install new dependencies | "
            "install additional packages | install any packages | install software"
        ),
        r"\b(?:pip3?|uv|npm|pnpm|yarn|bun|apt|apt-get|brew|cargo|poetry|conda|gem|go|dnf|apk)\s+(?:pip\s+)?(?:install|add|i|get)\b",
    ),
}
COMMAND_NAMES: Final = {phrase: name for name, (phrases, _) in _DEEDS.items() for phrase in phrases.split(" | ")}
COMMANDS: Final = " | ".join(COMMAND_NAMES)
_PROGRAMS: Final = word_set(
    "git sed awk grep cat rm mv cp ls cd find curl wget sudo chmod chown kill pkill npm npx pip "
    "pip3 python python3 node "
    "make docker kubectl helm terraform vim vi nano emacs less more tail head echo ssh scp bash "
    "sh apply_patch rg ps top "
    "yarn pnpm apt apt-get brew cargo go uv poetry psql mysql reboot shutdown"
)


def is_command(text: str) -> bool:
    """Whether a text is a command, a flag, a home folder or a variable of a shell, and no word of prose."""
    first = text.split(maxsplit=1)[0] if text.split() else ""
    flagged = text.startswith(("-", "$")) or " -" in text
    return first in _PROGRAMS or text.startswith("~") or (flagged and sum(map(str.isalnum, text)) > 1)


def pattern_of(items: tuple[str, ...], about: tuple[str, ...] = ()) -> str:
    """Return a pattern for commands; ``about`` are files that make it one that is meant."""
    if about:
        files = "|".join(str(re2.escape(name)) for name in about)
        added = rf"{_GIT}(?:add|commit)\b" if "git commit" in items else "|".join(map(_pattern, items))
        return rf"(?:{added})[^|;&\n]*(?:^|[\s/'\"])(?:{files})(?:$|[\s'\";&|])"
    return "|".join(map(_pattern, items))


def _pattern(item: str) -> str:
    if item in _DEEDS:
        return _DEEDS[item][1]
    if item.startswith("~"):
        return r"(?:^|[\s\"'=:(])~(?:/|$|[\s\"'])"
    if item.startswith("$"):
        return rf"\$\{{?{re2.escape(item.strip('${}'))}\b"
    words = [str(re2.escape(word)) for word in item.split()]
    # Between the words of a command there may be others: "git push origin --force".
    gap = r"(?:\s[^|;&\n]*)?\s" if any(word.startswith("-") for word in item.split()[1:]) else r"\s+"
    start = r"(?:^|[\s\"'`;|&(/])" if not item.startswith("-") else r"(?:^|\s)"
    return rf"{start}{gap.join(words)}(?:$|[\s\"'`;|&)=])"


# Forms of text that a pattern sees, and the words by which prompts name them.

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
FORM_NAMES: Final = {phrase: name for name, (phrases, _) in _FORMS.items() for phrase in phrases.split(" | ") if phrase}
FORMS: Final = " | ".join(FORM_NAMES)
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


# Which words are which symbol.

# Words that change nothing about what a sentence asks for.
FILLERS: Final = word_set(
    "the a an of to in on for with from by as at this that these those your our their its his her please ever also so "
    "then and/or either both there have has had strictly built-in provided"
)

_PHRASES: Final[dict[str, str]] = {
    # who
    "YOU": "you | yourself | the agent | the assistant | the model | the bot | the ai agent | "
    "the ai assistant | agents",
    "PERSON": "user | users | customer | customers | client | clients | human | humans | operator | owner | "
    "end user | end users | user's | customer's | customers' | users' | caller | person | them explicitly | "
    "patient | patients | patient's | guest | guests | guest's | traveler | travelers | traveller | passenger | "
    "passengers | student | students | student's | member | members | subscriber | subscribers | visitor | visitors | "
    "shopper | shoppers | buyer | buyers | employee | employees | requester | callers | caller's | client's | "
    "policyholder | policyholders | policyholder's | resident | residents | resident's | recruiter | recruiters | "
    "recruiter's | pupil | pupils | pupil's | candidate | candidates | candidate's | applicant | applicants | "
    "applicant's | tenant | tenants | tenant's | driver | drivers | driver's | learner | learners | seller | sellers | "
    "host | hosts | player | players | citizen | citizens | borrower | borrower's | donor | parent | parents | "
    "guest's | member's | traveler's | passenger's | visitor's | employee's | requester's | anyone | anybody | "
    "third parties | outsiders",
    "SUPERIOR": "manager | supervisor | admin | administrator | team lead | security team | legal | second person | "
    "managers | supervisors | manager's | supervisor's",
    # modality
    "BAN": "never | do not | must not | should not | shall not | may not | can not | cannot | ought not to | "
    "avoid | avoids | refrain from | under no circumstances | at no time | by no means | not allowed to | "
    "not permitted to | forbidden to | forbidden from | prohibited from | not to | no longer | must never | "
    "should never | may never | can never | shall never | do not ever | are not to | is not to | must avoid | "
    "should avoid | be careful not to | make sure not to | be sure not to | take care not to | in no case | "
    "it is forbidden to | it is prohibited to | it is not allowed to | it is not permitted to | "
    "is not allowed to | are not allowed to | are forbidden from | are prohibited from | are not permitted to | "
    "are forbidden to | strictly forbidden from | strictly forbidden to | strictly prohibited from | "
    "strictly not allowed to | is never to | are never to | must in no case | in no event | on no account | "
    "have no business | has no business | steer clear of | stay away from | keep away from",
    "DUTY": "must | shall | should | always | have to | has to | need to | needs to | required to | "
    "be sure to | make sure to | make sure you | make sure that you | ensure you | ensure that you | "
    "remember to | take care to | ought to | supposed to | expected to | obligated to | mandatory to | "
    "must always | should always | must also | it is mandatory to | it is required to | it is important to | "
    "it is essential to | it is imperative to | it is critical to | be certain to | see to it that you | "
    "without fail | it is critical that you | it is important that you | it is essential that you | "
    "it is imperative that you | it is crucial that you | it is crucial to | it is mandatory that you | is to be | "
    "are to be | ensure that | ensure | see to it that | make sure that | make sure",
    "MAY": "may | can | could | might | allowed to | permitted to | able to | will be able to | can also | may also",
    "FREE": "feel free to | feel free | free to | welcome to | do not hesitate to | never hesitate to | "
    "do not be afraid to | never be afraid to | no need to | not need to | need not | not have to | "
    "do not need to | do not have to | not required to | not necessary to | is optional | are optional | "
    "it is ok | it is okay | it is fine | it is acceptable | it is alright | is fine | is ok | is okay | "
    "is acceptable | at your discretion | as often as you like | as much as you like | "
    "as much as you find necessary | as many times as | as you see fit | as you wish | optionally | "
    "can choose to | may choose to | encouraged to | at liberty to",
    "ADVICE": "prefer | prefers | preferably | ideally | consider | try | try to | attempt to | aim to | "
    "aim for | strive to | strive for | whenever possible | when possible | where possible | if possible | "
    "wherever possible | as possible | whenever practical | when practical | where practical | "
    "when appropriate | where appropriate | if appropriate | as appropriate | when necessary | "
    "where necessary | if necessary | as necessary | when needed | where needed | if needed | as needed | "
    "when relevant | where relevant | if relevant | when feasible | if feasible | where applicable | "
    "when applicable | if applicable | generally | typically | usually | normally | by default | recommended | "
    "suggested | it is best to | it is better to | best to | better to | good practice | instead of | "
    "rather than | unless necessary | when useful | where useful | when helpful | where helpful | "
    "if it makes sense | where it makes sense | when it makes sense | favor | favour | lean towards | "
    "where sensible | perhaps | maybe | possibly",
    # conditions, order
    "IF": "if | when | whenever | in case | in the event | as soon as | as long as | while | otherwise | "
    "except | except when | except if | except for | depending | provided that | where | only if | only when | "
    "only where | during | in cases | assuming | given that | wherever | excluding | but | however | though | "
    "although | only for | only in | only with | only to | unlike",
    "UNLESS": "unless | until | only once | only after | not until | till | only upon",
    "ONCE": "once",
    "EVEN": "even if | even when | even though | regardless of | regardless | no matter how | no matter what",
    "BEFORE": "before | prior to | ahead of | precede | precedes | in advance of",
    "PRECEDED": "preceded by | preceding | prior",
    "AFTER": "after | following a | following any | right after | immediately after",
    "FIRST": "first | beforehand | in advance | at the start of the conversation | "
    "at the beginning of the conversation | "
    "at the start of every conversation | at the beginning of every conversation | at the start of each conversation | "
    "at the start of the session | at the beginning of the session | at the start of every session | "
    "at the beginning of each conversation | before anything else | before doing anything else | as the first step | "
    "as your first step | as your first action | as the first action | first of all",
    "THEN": "and then | followed by | and afterwards | and only then",
    "WITHOUT": "without | without first | without having",
    "BECAUSE": "because | since it | since this | since they | as it | as this | as that | as they | so that | "
    "in order to | otherwise you | or else | else you | so you | so we | so they | so it | so the user | so users",
    # acts
    "CALL": "call | calls | calling | called | use | uses | using | used | invoke | invokes | invoking | "
    "invoked | trigger | triggering | triggered | utilize | make use of | make a call to | make calls to | "
    "hand off to | handoff to | hand over to | make a tool call to | "
    "make any calls to | rely on | employ | attempt to call | attempt to use | touch | touching | touched | "
    "resort to",
    "RUN": "run | runs | running | execute | executes | executing | executed | issue the command | "
    "run the command | execute the command | run commands like | run commands such as",
    "CALLN": "call to | calls to | use of | invocation of | invocations of | calls of | calls",
    "SKIP": "skip | skipping | omit | omitting | bypass | leave out | leaving out",
    "SAY": "output | display | print | say | saying | repeat | include | including | includes | discuss | "
    "show | showing | quote | tell | telling | provide | recommend | promise | promising | write | writing | "
    "add | adding | promote | endorse | state | use the phrase | use the word | use the words | "
    "use phrases like | use words like | use the term | say things like | use phrases such as",
    "DISCLOSE": "reveal | revealing | disclose | disclosing | share | sharing | mention | mentioning | expose | "
    "exposing | leak | leaking | divulge | give out | giving out | read back | read out | read aloud | reading back | "
    "reading out | say aloud | say out loud | speak aloud",
    "REPLY": "answer | respond | reply",
    "END": "at the end | at the end of the conversation | at the end of the session | "
    "at the end of every conversation | at the end of each conversation | at the end of every session | "
    "at the end of each session | before ending the conversation | before you finish | before finishing | "
    "before ending | before the end | at the end of the task | "
    "before closing the conversation | at the end of every call | at the end of each call | at the end of the call | "
    "at the end of every chat | at the end of the chat",
    "CLOSE": "end | ends | ending | finish | finishing | close | closing | conclude | concluding | sign off | closed | "
    "ended | concluded",
    "OPEN": "begin | beginning | start | starting | open | opening | greet",
    "STOP": "stop | abort | give up | quit | lock the account | end the session",
    "KEEP": "keep | limit | restrict | make | cap | take",
    "EXCEED": "exceed | exceeds | exceeding | go over | be longer than | surpass | run over | go beyond",
    "RETRY": "retry | retrying | try again | reattempt | re-try",
    "FAILED": "failed | unsuccessful | incorrect | invalid | wrong | failing",
    "ATTEMPT": "attempt | attempts | tries | try's | failures",
    "CITE": "cite | cites | citing | include citations for | provide citations for",
    "SET": "set | setting | pass | passing | specify",
    "PROCEED": "proceed | proceeding | go ahead | go ahead with | take action | take any action | take any actions | "
    "taking action | taking any action | taking any actions | make changes | make any changes | making changes | "
    "making any changes | taking actions | executing actions | executing any action | executing any actions | "
    "performing actions | performing any action | performing any actions | carrying out actions",
    "EDITS": "edit files | modify files | write files | change files | edit any files | modify any files | edit code | "
    "modify source code | modify code | change code | write code | edit the code | create files "
    "| create or modify files | "
    "modify anything | change anything | implement anything | make edits | make code changes | edit source files | "
    "make any code changes | make any edits | modify the code | edit or create files | modify or create files | "
    "change any files | write any code | write or edit files | edit or write files | create or edit files",
    "DELETES": "delete files | remove files | delete any files | delete or overwrite files | delete files or folders",
    "SPELL": "spell out | write out",
    # things
    "PLAIN": "plain text | plaintext | plain prose",
    "EMPTY": "empty | blank",
    "FORM": FORMS,
    "COMMAND": COMMANDS,
    "QUESTION": "question | questions",
    "PREAMBLE": "preamble | preambles | filler | filler phrases | filler words | pleasantries | introductory phrases | "
    "opening phrases | conversational filler | acknowledgments | acknowledgements",
    "ALONE": "as a single action | alone | by itself | on its own | as the only action | as the only tool call | "
    "as the sole action | in isolation | as a single tool call | as a single call | as the only call",
    "TOGETHER": "together with | alongside | along with | in combination with | in parallel with | "
    "at the same time as | in the same step as | in the same turn as | in the same response as "
    "| in the same message as",
    "SAME": "same | exact same | identical | very same",
    "AGAIN": "again | repeatedly | over and over | a second time | again and again",
    "FIRSTACT": "first action | first tool call",
    "LITWORD": "character | symbol | sign | operator | variable | flag | flags | option | options | "
    "parameter | parameters | argument | arguments | notation",
    "ABSPATH": "absolute path | absolute paths | absolute file paths | full paths | absolute file path | absolute",
    "RELPATH": "relative path | relative paths | relative file paths | relative file path | relative",
    "PATH": "path | paths | file paths | file path | filepaths",
    "NOTHING": "nothing",
    "VIA": "via | through | by means of",
    "TOOLWORD": "tool | tools | function | functions | command | action | method | endpoint | api",
    "TOOLCALL": "tool call | tool calls | function call | function calls | tool invocation | tool invocations",
    "ANSWER": "answers | replies | response | responses | message | messages | your output | outputs | "
    "the reply | reply length | your answer | your reply | your response | every answer | each answer | "
    "every reply | each reply | every response | each response | every message | each message | all replies | "
    "all answers | all responses | your answers | your replies | your responses",
    "PHRASE": "phrase | phrases | words like | disclaimer | text | term | expression",
    "PROMPT": "system prompt | system prompts | system instructions | system message | hidden instructions | "
    "internal instructions | initial instructions | initial prompt | developer message | these instructions | "
    "your instructions | this prompt | your prompt | hidden prompt | developer instructions | internal prompt",
    "PII": "email address | email addresses | e-mail addresses | emails | phone number | phone numbers | "
    "telephone numbers | mobile numbers | credit card numbers | credit card number | card numbers | "
    "credit card details | card details | credit cards | ssn | ssns | social security numbers | "
    "social security number | ip addresses | ip address | iban | ibans | bank account numbers | bank accounts | "
    "pii | personal data | personal information | personal details | personally identifiable information | "
    "customer data | customers' data | email | phone",
    "SECRET": "passwords | password | secrets | api keys | api key | credentials | access tokens | private keys",
    "SOURCE": "source | sources | reference | references | one source | a source | at least one source | your sources",
    "JSON": "json | valid json | strict json | well-formed json | json object | a json object | json format",
    "APPROVAL": "approval | confirmation | permission | consent | authorization | authorisation | sign-off | "
    "go-ahead | ok | okay | green light | agreement | an explicit yes | a yes | yes",
    "AGREE": "confirm | confirms | confirmed | approve | approves | approved | agree | agrees | agreed | "
    "consents | consented | authorize | authorizes | authorized | says yes | has confirmed | has approved | "
    "has agreed | said yes | have confirmed | have approved",
    "ASK": "ask | asks | asking | check with | checking with | get | getting | obtain | obtaining | request | "
    "requesting | receive | receiving | seek | seeking | wait for | waiting for | await | awaiting | secure | "
    "double-check with | ask for | asking for | having | confirm with | confirming with | confirm | reach | reached | "
    "reaching | received | obtained | securing",
    "DANGEROUS": "destructive | irreversible | dangerous",
    "DEED": "sql | commands | operations | actions | changes | queries | statements | command | action | operation",
    "FORBIDDEN": "forbidden | prohibited | banned | off limits | off-limits | disallowed | not allowed | "
    "not permitted | strictly forbidden | strictly prohibited | never allowed | never permitted | "
    "never to be used | never to be called | taboo | a taboo | a no-go | "
    "disabled | turned off | switched off | not available | unavailable | "
    "out of bounds | not to be used | not to be called | out of scope | out-of-scope | off the table",
    "NEED": "require | requires | need | needs | required | is required for | are required for",
    "SUCCEEDED": "succeeded | has succeeded | was called | has been called | is called | was called first | "
    "has run | was successful | has completed | completed | has returned | returned ok | has passed | passed | "
    "is successful | has been run | have succeeded | ran | succeeds | completes | returns successfully",
    # amounts
    "ATMOST": "at most | no more than | not more than | up to | a maximum of | maximum | maximum of | max | "
    "under | below | within | at maximum | a max of | no larger than | no greater than | no higher than | "
    "no longer than | no bigger than | not exceeding | not to exceed | capped at | limited to at most",
    "MORETHAN": "more than | over | longer than | in excess of",
    "FEWER": "fewer than | less than | shorter than",
    "ORFEWER": "or less | or fewer | max. | at most | or shorter",
    "ATLEAST": "at least | no fewer than | no less than | a minimum of | minimum | no smaller than | no lower than | "
    "not less than | no shorter than",
    "EXACTLY": "exactly | precisely",
    "TIMES": "times | time | twice | thrice",
    "UNIT": "words | characters | chars | sentences | paragraphs | lines | tokens | word | sentence long | "
    "words long | sentence",
    "SESSION": "per session | per conversation | in a conversation | in a session | in one session | in total | "
    "overall | in one conversation | per chat | in the whole conversation | in the conversation | "
    "throughout the conversation | during a conversation | during the session | a session | "
    "in each conversation | in every conversation | in any conversation",
    "TURN": "per turn | per message | per response | per reply | per step | per request | in a single turn | "
    "in one turn | in the same turn | in a single response | in one response | in the same response | "
    "each time | every time | per question | per user message | in a turn | per answer | in the same message | "
    "in a single message | per query | per iteration | per round | at each step | in each response | "
    "in every response | in the same step | per command list | per action list | in one message | in a single step | "
    "in one step | in each message | in each turn | each turn | per assistant message | in any single response | "
    "in the same breath | in one breath | in one go | in a single go | at one time",
    "ATONCE": "at a time | at once | at the same time | in parallel | simultaneously | concurrently | go together | "
    "called together | used together",
    "PARALLEL": "parallel | concurrent | simultaneous",
    "MULTIPLE": "multiple | several | many | two or more | additional",
    "WINDOW": "per minute | per hour | per day | per second | per week | a day | an hour | every minute | every hour",
    "AMOUNT": "above | exceeding | greater than | larger than | "
    "higher than | bigger than | beyond | of more than | worth more than",
    "ONLY": "only | exclusively | solely | nothing but | restricted to | limited to | confined to",
    "OTHERTHAN": "other than | besides | apart from | except for the | any other than | but",
    "EACH": "each | every | any | all",
    "ANYWAY": "under any circumstances | at any time | at all | in any case | for any reason | in any situation | "
    "in any circumstance | ever again | step by step | step-by-step | at all times | no "
    "exceptions | without exception | "
    "whatsoever | in this exact format | in the following format | in this format | with the following structure | "
    "with this structure | with no exceptions",
    "EXPLICIT": "explicit | explicitly | clear | clearly | prior | express | verbal | written | "
    "their | informal | formal | "
    "affirmative | recorded | final",
    "BE": "is | are | be | been | being | was | were | has been | have been | will be",
    "SEP": "and | or | , | nor | and/or | / | as well as",
    "SUCHAS": "such as | like | e.g. | e.g | namely | for example | including",
    "AGENTWORD": "agent | agents",
    "NO": "no",
    # what follows from a fact is said by itself
    "CUT": "which is why | that is why | this is why",
    "PRONOUN": "it",
    "THISTOOL": "this tool | that tool | these tools | those tools | this function",
}
# Symbols for tokens that no list has.
TOKENS: Final = (
    *("TOOL", "CODE", "QUOTE", "NUM", "RANGE", "NAME", "LITERAL", "FILE", "ARGNAME", "W", "OPENED", "CLOSED"),
)

SYMBOLS: Final[tuple[str, ...]] = (*_PHRASES, *TOKENS)
LETTER: Final = {symbol: chr(0x100 + number) for number, symbol in enumerate(SYMBOLS)}  # one character a symbol

SHELL: Final = word_set(
    "shutdown reboot sudo mkfs curl wget chmod chown kill killall halt eval exec rm dd ssh pkill poweroff su scp"
)
_NUMBERS: Final = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
COUNTED: Final = {word: number for number, word in enumerate(_NUMBERS)}
CONTRACTIONS: Final = {
    "don't": ("do", "not"),
    "dont": ("do", "not"),
    "doesn't": ("does", "not"),
    "can't": ("can", "not"),
    "won't": ("will", "not"),
    "mustn't": ("must", "not"),
    "shouldn't": ("should", "not"),
    "shan't": ("shall", "not"),
    "needn't": ("need", "not"),
    "isn't": ("is", "not"),
    "aren't": ("are", "not"),
    "you're": ("you", "are"),
    "it's": ("it", "is"),
    "that's": ("that", "is"),
    "they're": ("they", "are"),
    "you'll": ("you", "will"),
    "you've": ("you", "have"),
    "we're": ("we", "are"),
    "there's": ("there", "is"),
    "haven't": ("have", "not"),
    "hasn't": ("has", "not"),
    "wasn't": ("was", "not"),
    "weren't": ("were", "not"),
    "didn't": ("did", "not"),
}


def _entries() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each phrase with its symbol; where two lists have a phrase, the first keeps it."""
    for symbol, phrases in _PHRASES.items():
        for phrase in phrases.split(" | "):
            yield tuple(phrase.split()), symbol
    # What is done never to be forgotten is what must be done.
    for ban in ("never", "do not", "must not", "should not", "cannot", "can not", "must never"):
        for verb in ("forget", "fail", "neglect", "omit"):
            yield (*ban.split(), verb, "to"), "DUTY"


LEXICON: Final[dict[tuple[str, ...], str]] = {}
for _words, _symbol in _entries():
    LEXICON.setdefault(_words, _symbol)
LONGEST: Final = max(map(len, LEXICON))
