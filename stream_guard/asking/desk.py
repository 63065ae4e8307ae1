"""The desk: questions of rules wait here, on disk, are put to the judge within the budgets, and their answers recorded.

Findings that wait for an answer survive a crash, as alerts in the outbox do. Whoever gave them takes them back when
they are settled, and says when the alerts are out: until then a crash repeats them, under the same ids. Between judging
and delivery, ``JudgedAlerts`` does that for every batch.

Budgets are by day: what a call may cost at most is taken before it is made, and the rest given back. A process that is
killed in between has spent what it took: a budget may be used up too early, and is never exceeded.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from math import ceil
from typing import Annotated, Final, NamedTuple

import msgspec

from stream_guard.alerting.delivery import Delivery, alerts_of
from stream_guard.errors import StreamGuardError
from stream_guard.history import inquiries
from stream_guard.history.alert_rows import column
from stream_guard.history.database import Database, Row, Statements
from stream_guard.history.inquiries import AskedInquiry
from stream_guard.history.records import from_text, to_text
from stream_guard.judge.counts import Counts, InquiryResult
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Alert, Finding, resolved
from stream_guard.judge.ports import NO_ANSWERS, Answer, JudgeAnswers
from stream_guard.observability.steady_clock import steady_time
from stream_guard.ports import Question
from stream_guard.redaction import redact_text
from stream_guard.settings import JudgeSettings

NANOS: Final = 1_000_000_000  # of a dollar: budgets are kept in whole numbers, so that nothing is lost in sums
_INSTRUCTIONS: Final = 4096  # bytes around a question that an endpoint counts too


class Budget(NamedTuple):
    """What may be spent in a day, by a rule, by a tenant, or in all; None: no bound of that sort."""

    scope: str
    name: str
    calls: int | None
    dollars: float | None

    def __str__(self) -> str:
        return f"the budget of {self.scope} {self.name}".rstrip()


def day_of(now: float) -> str:
    """Return the day that a time belongs to, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(now))


def worst_case(words: str, excerpt: Sequence[str], settings: JudgeSettings) -> int:
    """Return what a question costs at most, in nanos: no tokenizer makes more tokens than there are bytes."""
    asked = len(json.dumps([words, excerpt])) + _INSTRUCTIONS
    return nanos((asked * settings.input_price + settings.max_tokens * settings.output_price) / 1e6)


def nanos(dollars: float) -> int:
    """Return an amount in nanos, rounded up."""
    return ceil(round(dollars * NANOS, 3))


def reserve(statements: Statements, budgets: Sequence[Budget], day: str, amount: int) -> str:
    """Take a call and an amount out of all budgets, or out of none; return what stands against it."""
    if problem := objection(statements, budgets, day, amount):
        return problem
    for budget in budgets:
        statements.run(
            "INSERT INTO sg_budgets VALUES (?, ?, ?, 1, ?) ON CONFLICT (scope, name, day) DO UPDATE "
            "SET calls = sg_budgets.calls + 1, nanos = sg_budgets.nanos + excluded.nanos",
            budget.scope,
            column(budget.name),
            day,
            amount,
        )
    return ""


def objection(statements: Statements, budgets: Sequence[Budget], day: str, amount: int) -> str:
    """Return why a call that may cost so much is not to be made; empty where it may be."""
    for budget in budgets:
        calls, spent = _spent(statements, budget, day)
        if budget.calls is not None and calls + 1 > budget.calls:
            return f"{budget} is used up for {day}: {budget.calls} calls"
        if budget.dollars is not None and spent + amount > budget.dollars * NANOS:
            return f"{budget} does not allow this call on {day}: ${spent / NANOS:.4f} of ${budget.dollars:g} are spent"
    return ""


def give_back(statements: Statements, budgets: Sequence[Budget], day: str, amount: int) -> None:
    """Correct what was taken for a call by what it did not cost, or cost beyond the worst case."""
    for budget in budgets:
        statements.run(
            "UPDATE sg_budgets SET nanos = nanos - ? WHERE scope = ? AND name = ? AND day = ?",
            amount,
            budget.scope,
            column(budget.name),
            day,
        )


def _spent(statements: Statements, budget: Budget, day: str) -> tuple[int, int]:
    rows = statements.run(
        "SELECT calls, nanos FROM sg_budgets WHERE scope = ? AND name = ? AND day = ?",
        budget.scope,
        column(budget.name),
        day,
    )
    return (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)


_REMEMBERED: Final = 4096  # answers in memory


def record_id(model: str, digest: str) -> str:
    """Return the id of an inquiry to a model; it is also what the judge must repeat."""
    return blake2b(json.dumps([model, digest]).encode(), digest_size=16).hexdigest()


def answer_of(inquiry: AskedInquiry) -> Answer | None:
    """Return what a judge said to an inquiry; None while it has not answered, or could not."""
    if inquiry.state != "answered":
        return None
    return Answer(
        violated=inquiry.violated, confidence=inquiry.confidence, explanation=inquiry.explanation, id=inquiry.id
    )


class AnswerRecord:
    """The answers that a history has. It asks nobody; with ``asks`` it wants to know what is not answered."""

    def __init__(self, database: Database, model: str, *, asks: bool = False) -> None:
        self.asks = asks
        self._database = database
        self._model = model
        self._known: dict[str, Answer] = {}

    def find(self, digest: str) -> Answer | None:
        """Return the recorded answer to an inquiry, by its digest, or None."""
        known = self._known.get(digest)
        if known is not None:
            return known
        asked = inquiries.find(self._database, record_id(self._model, digest))
        answer = None if asked is None else answer_of(asked)
        if answer is not None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[digest] = answer
        return answer


_TRIES: Final = 3
_AT_ONCE: Final = 200  # settled findings that are handed back together
_MOST_OPEN: Final = 1000  # questions that wait at the same time
_LEASE: Final = 60.0  # seconds in which whoever took settled findings must have told of them
_GRACE: Final = 10.0  # seconds after the time limit of a call, before it is taken for one of a dead process
_LONGEST_PAUSE: Final = 300.0  # seconds that an endpoint may ask to wait
_PAUSE: Final = 1.0  # seconds between two looks for questions that others left
_EXPLAINED: Final = 300  # characters of an explanation that are kept

_DUE: Final = (
    "SELECT id FROM sg_inquiries WHERE state IN ('open', 'claimed') AND until <= ? ORDER BY opened, id LIMIT 1"
)

_logger = logging.getLogger(__name__)

AskJudge = Callable[[Question], Answer | None]


@resolved
class _CountableAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose values can be counted and kept: a judge is a stranger's code and may return anything."""

    violated: bool | None
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]  # no bound holds for NaN
    explanation: str
    tokens: Annotated[int, msgspec.Meta(ge=0, le=2**40)]
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    is_counted: bool
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None


class SettledFinding(NamedTuple):
    """A finding that waited, what the judge said, and the policy under which it was made."""

    finding: Finding
    answer: Answer | None
    policy_version: str


@resolved
class WaitingFinding(msgspec.Struct, frozen=True):
    """A finding as it waits."""

    finding: Finding
    policy_version: str


class _Claim(NamedTuple):
    """A question that this process has taken, and what it has taken for it."""

    inquiry: AskedInquiry
    budgets: tuple[Budget, ...]
    day: str
    amount: int  # nanos


class QuestionDesk(AnswerRecord):
    """Asks the judge, in threads of its own. ``owner`` names whose findings wait here; a restart uses the same name."""

    def __init__(
        self,
        database: Database,
        settings: JudgeSettings,
        judge: AskJudge,
        *,
        owner: str,
        counts: Counts | None = None,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        super().__init__(database, settings.model, asks=True)
        self._settings = settings
        self._judge = judge
        self._owner = column(owner)
        self._counts = counts if counts is not None else Counts()
        self._clock = clock
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self.settled: Callable[[], None] = lambda: None  # called in a thread of the desk, when something may be settled

    def start(self) -> None:
        """Begin to ask, also what an earlier run left."""
        for number in range(self._settings.concurrency):
            thread = threading.Thread(target=self._work, name=f"stream_guard-judge-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """End when the calls that are open have ended: they are paid for. What waits, waits for the next start."""
        self._stop.set()
        self._wake()
        for thread in self._threads:
            thread.join()

    def put(self, findings: Sequence[Finding], policy_version: str) -> list[Finding]:
        """Have findings wait for their answers, durably; return those for which no budget is left today."""
        with self._database.transaction() as statements:
            left = [finding for finding in findings if not self._put(statements, finding, policy_version)]
        for finding in left:
            self._count(finding.rule_id, "no_budget")
        self._wake()
        return left

    def take(self) -> list[SettledFinding]:
        """Return findings whose wait is over; call ``told`` when their alerts are out."""
        if not self.has_settled():
            return []
        with self._database.transaction() as statements:
            rows = self._settled_rows(statements.run)
            for alert, _, _ in rows:
                self._update(statements, alert, "waiting", self._clock() + _LEASE)
        found = [(from_text(waiting, WaitingFinding), from_text(asked, AskedInquiry)) for _, waiting, asked in rows]
        return [SettledFinding(one.finding, answer_of(asked), one.policy_version) for one, asked in found]

    def take_all(self) -> list[SettledFinding]:
        """Return every finding whose wait is over, and have them told of: for a caller that keeps nothing back."""
        found: list[SettledFinding] = []
        while taken := self.take():
            self.told(taken)
            found += taken
        return found

    def told(self, settled: Iterable[SettledFinding]) -> None:
        """Take note that the alerts of these findings are out, or that they have none."""
        with self._database.transaction() as statements:
            for one in settled:
                self._update(statements, column(one.finding.alert_id), "told", 0.0, body="")

    def has_settled(self) -> bool:
        """Whether a finding's wait is over that nobody has taken."""
        return bool(self._settled_rows(self._database.read, 1))

    def drain(self) -> bool:
        """Wait until every finding of this owner is settled, for ``judge.patience`` at most; return whether it is."""
        until = time.monotonic() + self._settings.patience
        while self._is_waiting():
            left = until - time.monotonic()
            if left <= 0 or self._stop.is_set():
                return False
            with self._changed:
                self._changed.wait(min(left, _PAUSE))
        return True

    def _put(self, statements: Statements, finding: Finding, policy_version: str) -> bool:
        asked, now = finding.inquiry, self._clock()
        assert asked is not None  # noqa: S101  # only such findings are put
        name = record_id(self._settings.model, asked.digest)
        known = inquiries.get(statements, name)
        is_over = known is not None and known.state in ("failed", "refused")
        if known is None or (is_over and day_of(known.settled) != day_of(now)):
            known = AskedInquiry(
                id=name,
                rule_id=finding.rule_id,
                model=self._settings.model,
                words=asked.words,
                excerpt=asked.excerpt,
                opened=now,
                tenant=finding.labels.get("tenant", ""),
                calls_per_day=asked.calls_per_day,
                dollars_per_day=asked.dollars_per_day,
            )
            amount = worst_case(known.words, known.excerpt, self._settings)
            [(waiting,)] = statements.run("SELECT count(*) FROM sg_inquiries WHERE state IN ('open', 'claimed')")
            if waiting >= _MOST_OPEN or objection(statements, self._budgets(known), day_of(now), amount):
                return False  # and nothing is written: a flood of questions must not fill the disk
            inquiries.put(statements, known, 0.0)
        statements.run(
            "INSERT INTO sg_waiting VALUES (?, ?, ?, 'waiting', 0, ?) ON CONFLICT (alert, owner) DO NOTHING",
            column(finding.alert_id),
            self._owner,
            name,
            to_text(WaitingFinding(finding, policy_version)),
        )
        return True

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                claim = self._claim()
                if claim is not None:
                    self._settle(claim, self._ask(claim.inquiry))
                self.settled()
            except StreamGuardError as error:  # a database or a sink: both may be there again
                claim = None
                _logger.error("questions to the judge wait: %s", error)  # noqa: TRY400  (it says why)
            except Exception:
                claim = None
                _logger.exception("a thread that asks the judge stumbled; it goes on")
            with self._changed:
                self._changed.notify_all()
                if claim is None and not self._stop.is_set():
                    self._changed.wait(_PAUSE)

    def _claim(self) -> _Claim | None:
        """Take the question that has waited longest, and what it may cost; a question without a budget is refused."""
        if not self._database.read(_DUE, self._clock()):
            return None
        with self._database.transaction() as statements:
            now = self._clock()  # later than that of whoever put the question: its budget is that of its day
            rows = statements.run(_DUE, now)
            inquiry = inquiries.get(statements, rows[0][0]) if rows else None
            if inquiry is None:
                return None
            budgets, day = self._budgets(inquiry), day_of(now)
            amount = worst_case(inquiry.words, inquiry.excerpt, self._settings)
            # A claim that is over was a process that died in a call: it is not known what the call made of it.
            why = f"no answer in {_TRIES} tries" if inquiry.tries >= _TRIES else ""
            if why or (why := reserve(statements, budgets, day, amount)):
                self._close(statements, inquiry, "failed" if inquiry.tries else "refused", why)
                return None
            taken = msgspec.structs.replace(inquiry, state="claimed", tries=inquiry.tries + 1)
            inquiries.put(statements, taken, now + self._settings.timeout + _GRACE)
        return _Claim(taken, budgets, day, amount)

    def _ask(self, inquiry: AskedInquiry) -> Answer:
        question = Question(
            rule=inquiry.words,
            text="\n".join(inquiry.excerpt),
            settings=self._settings,
            timeout=self._settings.timeout,
            id=inquiry.id,
        )
        try:
            answer = self._judge(question)
            if answer is None:
                return _no_answer("no judge is set up; see judge.url", is_counted=True)
            return Answer(**msgspec.structs.asdict(msgspec.convert(answer, _CountableAnswer, from_attributes=True)))
        except msgspec.ValidationError as error:
            return _no_answer(f"the judge returned no answer: {error}")
        except BaseException as error:  # noqa: BLE001  # it may raise anything, SystemExit too; that is no answer
            return _no_answer(f"the judge failed: {type(error).__name__}")

    def _settle(self, claim: _Claim, answer: Answer) -> None:
        """Record an answer, and give back what the call did not cost."""
        spent = nanos(answer.cost_usd) if answer.is_counted else claim.amount
        with self._database.transaction() as statements:
            give_back(statements, claim.budgets, claim.day, claim.amount - spent)
            inquiry = msgspec.structs.replace(
                claim.inquiry,
                violated=answer.violated,
                confidence=answer.confidence,
                explanation=redact_text(answer.explanation, _EXPLAINED),
                tokens=claim.inquiry.tokens + answer.tokens,
                cost_usd=claim.inquiry.cost_usd + spent / NANOS,
            )
            self._counts.judge_dollars[inquiry.rule_id] += spent / NANOS
            known = inquiries.get(statements, inquiry.id)
            if known is not None and known.state == "answered":
                return  # by another process, which took this one for dead; an answer never changes
            if answer.violated is None and answer.retry_after is not None and inquiry.tries < _TRIES:
                waiting = msgspec.structs.replace(inquiry, state="open")
                inquiries.put(statements, waiting, self._clock() + min(answer.retry_after, _LONGEST_PAUSE))
                return
            self._close(statements, inquiry, "failed" if answer.violated is None else "answered", inquiry.explanation)

    def _close(
        self, statements: Statements, inquiry: AskedInquiry, state: inquiries.InquiryState, explanation: str
    ) -> None:
        over = msgspec.structs.replace(inquiry, state=state, explanation=explanation, settled=self._clock())
        inquiries.put(statements, over, 0.0)
        results: dict[bool | None, InquiryResult] = {True: "broken", False: "kept", None: "no_answer"}
        self._count(inquiry.rule_id, "no_budget" if state == "refused" else results[over.violated])

    def _count(self, rule_id: str, result: InquiryResult) -> None:
        with self._changed:
            self._counts.inquiries[rule_id, result] += 1

    def _budgets(self, inquiry: AskedInquiry) -> tuple[Budget, ...]:
        settings = self._settings
        budgets = [
            Budget("rule", inquiry.rule_id, inquiry.calls_per_day, inquiry.dollars_per_day),
            Budget("all", "", settings.calls_per_day, settings.dollars_per_day),
        ]
        if inquiry.tenant:
            calls, dollars = settings.tenant_calls_per_day, settings.tenant_dollars_per_day
            budgets.append(Budget("tenant", inquiry.tenant, calls, dollars))
        return tuple(budgets)

    def _settled_rows(self, run: Callable[..., list[Row]], most: int = _AT_ONCE) -> list[Row]:
        return run(
            "SELECT w.alert, w.body, i.body FROM sg_waiting w JOIN sg_inquiries i ON i.id = w.inquiry "
            "WHERE w.owner = ? AND w.state = 'waiting' AND w.until <= ? "
            "AND i.state IN ('answered', 'failed', 'refused') ORDER BY i.opened, w.alert LIMIT ?",
            self._owner,
            self._clock(),
            most,
        )

    def _is_waiting(self) -> bool:
        rows = self._database.read(
            "SELECT 1 FROM sg_waiting w JOIN sg_inquiries i ON i.id = w.inquiry WHERE w.owner = ? "
            "AND w.state = 'waiting' AND i.state IN ('open', 'claimed') LIMIT 1",
            self._owner,
        )
        return bool(rows)

    def _update(self, statements: Statements, alert: str, state: str, until: float, body: str | None = None) -> None:
        statements.run(
            "UPDATE sg_waiting SET state = ?, until = ?, body = COALESCE(?, body) WHERE alert = ? AND owner = ?",
            state,
            until,
            body,
            alert,
            self._owner,
        )

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _no_answer(why: str, *, is_counted: bool = False) -> Answer:
    return Answer(violated=None, confidence=0.0, explanation=why, is_counted=is_counted)


class JudgedBatch(NamedTuple):
    """What rules found in a batch of records."""

    alerts: Sequence[Alert]
    asked: Sequence[Finding]  # a judge is asked about them before they are alerts
    judge: Judge


class JudgedAlerts:
    """The alerts on their way to the sinks, and those that wait. Where the answers are no desk, none waits."""

    def __init__(self, delivery: Delivery, answers: JudgeAnswers = NO_ANSWERS) -> None:
        self._delivery = delivery
        self._desk = answers if isinstance(answers, QuestionDesk) else None
        self._taken: list[SettledFinding] = []

    def keep(self, judged: JudgedBatch) -> dict[str, int]:
        """Have the alerts delivered, or on disk, and the questions too; return where the sinks stand."""
        self._delivery.deliver([*judged.alerts, *self._exchange(judged.asked, judged.judge)])
        positions = self._delivery.flush()
        if self._desk is not None and self._taken:
            self._desk.told(self._taken)  # the alerts are out: from now on a crash does not repeat them
            self._taken = []
        return positions

    def _exchange(self, asked: Sequence[Finding], judge: Judge) -> list[Alert]:
        """Have findings wait for the judge, on disk, and return the alerts whose wait is over."""
        if self._desk is None:
            return []
        version = judge.policy.version
        left = [judge.settle(finding, None) for finding in self._desk.put(asked, version)] if asked else []
        alerts = alerts_of([finding for finding in left if finding is not None], version)
        self._taken = self._desk.take()
        for finding, answer, made_under in self._taken:
            settled = judge.settle(finding, answer)
            alerts += [] if settled is None else alerts_of([settled], made_under)
        return alerts

    def are_there(self) -> bool:
        """Whether a finding has its answer now, and nobody has told of it."""
        return self._desk is not None and self._desk.has_settled()

    def wait(self) -> None:
        """Wait for the answers that are still to come, as long as the settings say."""
        if self._desk is not None:
            self._desk.drain()


def questions_in(found: Iterable[Finding]) -> list[Finding]:
    """Return those of the findings that a judge is to be asked about."""
    return [finding for finding in found if finding.inquiry is not None]
