"""The commands of the core: name, help text, and the function that is imported when the command is called."""

from __future__ import annotations

from typing import Final

from stream_guard.agent_hooks.dialects import AGENTS
from stream_guard.ports import Command


def _core(name: str, help_text: str, module: str, function: str = "") -> Command:
    """Return a command whose function has the name of the command, unless it is given."""
    return Command(name=name, help=help_text, target=f"stream_guard.cli.{module}:{function or name}")


COMMANDS: Final = (
    _core(
        "demo", "Watch a refund agent's sample sessions: alerts, a table of rules, metrics; no broker needed.", "demo"
    ),
    _core(
        "init",
        "Look at traces and write a policy, settings and an editor schema that fit them; then check the traces.",
        "init",
    ),
    _core(
        "learn",
        "Learn rules from sessions that went well, in shadow mode; exit 4 without any, with --diff 1 when some broke.",
        "init",
    ),
    _core("run", "Watch events as they come and send alerts; ends with its input, or on SIGINT and SIGTERM.", "run"),
    _core(
        "worker", "Watch the topics together with the other workers of the group; ends on SIGINT and SIGTERM.", "worker"
    ),
    _core(
        "check",
        "Find what recorded sessions do wrong; exit 1 for findings, 4 when something could not be judged.",
        "check",
    ),
    _core(
        "replay",
        "Judge an archive again, with the same result every time; nothing is sent anywhere without --emit.",
        "replay",
    ),
    _core(
        "explain",
        "Say why a rule fired in a session, which events led to it, and where other rules came closest.",
        "explain",
    ),
    Command(
        name="sessions",
        help="The sessions of recordings.",
        commands=(
            _core(
                "list",
                "List the sessions of recordings: agent, time, events, and with a policy what it finds.",
                "explain",
                "list_sessions",
            ),
            _core(
                "show",
                "Show one session event by event; with a policy, the states that changed and what was found.",
                "explain",
                "show_session",
            ),
        ),
    ),
    _core(
        "convert",
        "Write recordings as native events, or a program that does for another format; exit 4 for unreadable records.",
        "check",
    ),
    _core("serve", "Answer agents over HTTP before their tools run; ends on SIGINT and SIGTERM.", "serve"),
    _core(
        "mcp-proxy",
        "Stand between an MCP client and its server: calls, results and lists of tools pass a gate first.",
        "mcp_proxy",
        "mcp_proxy",
    ),
    Command(
        name="hook",
        help="Hooks for coding agents: each asks a running gate.",
        commands=(
            _core("install", "Write a hook into an agent's settings: shows the change, asks first, can undo.", "hook"),
            _core(
                "test",
                "Play payloads of an agent through its hook, and show what the agent would be told.",
                "hook",
                "play",
            ),
            _core(
                "status",
                "Show settings that were changed since install, and how many calls ran although no gate was asked.",
                "hook",
            ),
            *(
                _core(agent, "Answer a hook of a coding agent, from standard input.", "hook", "answer")
                for agent in AGENTS
            ),
        ),
    ),
    _core(
        "wish",
        "Find the rule for a wish in plain words, with its tests, ready to paste; without words, list the wishes.",
        "wish",
    ),
    _core("lint", "List everything that is wrong with policy files; exit 2 when something is.", "lint"),
    _core("schema", "Print the JSON Schema of policies with the kinds that are installed, for editors.", "policy"),
    _core("plugins", "Show the plugins that are loaded, the package each came in, and what it provides.", "packs"),
    _core(
        "doctor",
        "Look at a broker, its topics, a gate, sinks, or say what is installed; exit 1 when something must be mended.",
        "doctor",
    ),
    Command(
        name="reviews",
        help="What waits for a person.",
        commands=(
            _core("list", "List reviews, the latest first.", "reviews", "list_reviews"),
            _core(
                "show",
                "Show one review whole: what was tried, with which arguments, and why it was stopped.",
                "reviews",
                "show_review",
            ),
            _core("approve", "Let the attempt through, once, with the arguments that the review shows.", "reviews"),
            _core("reject", "Refuse the attempt.", "reviews"),
            _core("acknowledge", "Say that an anomaly_alert has been seen.", "reviews"),
        ),
    ),
    Command(
        name="alerts",
        help="Alerts that the history keeps.",
        commands=(
            _core(
                "list",
                "List the alerts of the history, the latest first; "
                "they come there by --alerts history, serve and the page.",
                "alerts",
                "list_alerts",
            ),
            _core("show", "Show one alert whole, with what people said of it.", "alerts", "show_alert"),
        ),
    ),
    Command(
        name="verdicts",
        help="What people say of findings, and what that says of rules.",
        commands=(
            _core("give", "Say whether a finding is right, wrong, or so and harmless.", "reviews"),
            _core("report", "Say of every rule of a policy whether to keep, tune or retire it.", "reviews"),
            _core(
                "propose",
                "Propose an exception for what was marked wrong, "
                "and prove that what was marked right still fires; else exit 1.",
                "reviews",
            ),
        ),
    ),
    Command(
        name="incidents",
        help="What rules found, session by session.",
        commands=(
            _core("list", "List incidents, the latest first.", "reviews", "list_incidents"),
            _core("show", "Show one incident and its timeline.", "reviews", "show_incident"),
            _core("solve", "Call an incident solved; a finding that comes later opens it again.", "reviews"),
        ),
    ),
    Command(
        name="outbox",
        help="Alerts on their way to sinks, and those that a sink refused.",
        commands=(
            _core(
                "list",
                "List alerts in the outbox: dead letters, unless another state is asked for.",
                "letters",
                "list_alerts",
            ),
            _core(
                "retry",
                "Send dead letters once more, or one by one what was summed up; "
                "by the process that sends, or its next start.",
                "letters",
            ),
            _core("drop", "Forget dead letters, or what was summed up.", "letters"),
        ),
    ),
    Command(
        name="letters",
        help="Records that could not be read, and their way back.",
        commands=(
            _core("list", "List dead letters, the latest first.", "letters", "list_letters"),
            _core(
                "show",
                "Show one dead letter: why it could not be read, and the record with its secrets masked.",
                "letters",
                "show_letter",
            ),
            _core(
                "redrive",
                "Send dead letters back to where they came from, each once; exit 1 when some could not go.",
                "letters",
            ),
        ),
    ),
    Command(
        name="state",
        help="The states of a group of workers, into a file and out of it.",
        commands=(
            _core(
                "export",
                "Write the states of a group to a file; its workers are stopped before.",
                "rollouts",
                "export_state",
            ),
            _core(
                "import",
                "Give a group that has no states those of a file, in any number of partitions.",
                "rollouts",
                "import_state",
            ),
        ),
    ),
    Command(
        name="audit",
        help="The record of decisions, reviews and incidents.",
        commands=(
            _core(
                "verify",
                "Check every record against its digest and the one before; "
                "exit 1 when one was changed. Prints the head.",
                "audit",
            ),
            _core(
                "sign",
                "Begin to sign records with history.key_file; run verify first: what is there counts from now on.",
                "audit",
            ),
            _core("show", "Print the records in order, one JSON object a line.", "audit"),
        ),
    ),
    Command(
        name="history",
        help="What the history keeps.",
        commands=(
            _core(
                "prune",
                "Take out of the history what is settled and old, and say what went; servers and runs do it meanwhile.",
                "history",
            ),
        ),
    ),
    Command(
        name="evidence",
        help="What the history has of a period, as a file that can be checked anywhere.",
        commands=(
            _core(
                "export",
                "Write audit, decisions, policies and findings of a period to a file of chained lines. "
                "Prints its head.",
                "audit",
            ),
            _core(
                "verify",
                "Check a file of evidence, without a history: every line, the chain, the audit; "
                "exit 1 when it was changed.",
                "audit",
                "verify_evidence",
            ),
        ),
    ),
    Command(
        name="tokens",
        help="Who may ask and who may answer, over HTTP.",
        commands=(
            _core("new", "Make a token and print it; the file keeps only its digest.", "serve"),
            _core("list", "List whose tokens there are, and their roles.", "serve", "list_tokens"),
            _core("remove", "Take somebody's tokens away; a server that runs refuses them from then on.", "serve"),
        ),
    ),
    Command(
        name="policy",
        help="Work with policy files.",
        commands=(
            _core("convert", "Print a policy of any dialect in the native form.", "policy"),
            _core(
                "test",
                "Run the tests that stand beside the rules; exit 1 when one fails, 4 when there is none.",
                "policy",
                "run_tests",
            ),
            _core(
                "promote",
                "Take rules out of shadow mode: from now on their findings are alerts, and `then` holds.",
                "init",
                "promote_rules",
            ),
            _core(
                "publish",
                "Roll a policy out to all workers that follow the topic; tenants that are named are held back.",
                "rollouts",
            ),
            _core(
                "rollback",
                "Roll out again what was in force before, for everybody and for tenants that were held back then.",
                "rollouts",
            ),
            _core(
                "rollouts",
                "List the policies that were rolled out, and how far the workers have come with each.",
                "rollouts",
                "list_rollouts",
            ),
        ),
    ),
    Command(
        name="packs",
        help="Rules that a policy takes in by name.",
        commands=(
            _core(
                "list",
                "List the packs, with how many of their rules are enforced and how many are in shadow mode.",
                "packs",
                "list_packs",
            ),
            _core(
                "show",
                "Print a pack as it is written: a policy that can be read, tested, or copied and changed.",
                "packs",
                "show_pack",
            ),
        ),
    ),
    Command(
        name="config",
        help="Look at the settings.",
        commands=(
            _core(
                "show",
                "Print the settings in force: defaults, then the file, then the environment; secrets are masked.",
                "packs",
            ),
        ),
    ),
)
