"""What may happen to workers and brokers while records come in; each disturbance is over when its function returns."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests import processes
from tests.kafka.configuration import SILENCE
from tests.kafka.trio import FROM_BROKER, NODES, TO_BROKER, Trio
from tests.worker.fleet import Fleet

SESSION_TIMEOUT: Final = 6.0  # what the fleets set: a longer silence loses a worker its partitions
CLOCKED: Final = Path(__file__).with_name("clocked_worker.py")
ENDED: Final = 3  # the exit code of a worker that cannot go on, lost nothing, and is to be started again
JUMPS: Final = (-86_400.0, -90.0, 90.0, 3_000.0)  # seconds; of an hour ahead, brokers take no records (test_clock)


@dataclass
class Scene:
    """Three workers, each reaching three brokers through a proxy, and the dice that decide what happens to them."""

    fleet: Fleet
    trio: Trio
    dice: Random
    before: Mapping[str, Any] | None = None  # how a worker of the version before is started; None: there is none
    policies: int = 0
    moves: int = 0  # to other groups
    old: set[str] = field(default_factory=set)  # workers that are of the version before now

    def start(self, name: str = "") -> None:
        """Start a worker: of the version before if it was one; else under a clock that can be set."""
        name = name or f"worker-{len(self.fleet.workers) + 1}"
        clock = self.clock(name)
        clock.write_text("0")
        plain = {"launcher": (str(CLOCKED),), "env": {"CLOCK": str(clock)}}
        process = self.before if name in self.old else plain
        self.fleet.start(name, at=self.trio.proxy.address, process=process)

    def leave(self, name: str) -> None:
        """Let a worker end in good order, if it has not ended before, or been asked before it could listen."""
        code = self.fleet.leave(name)
        assert code in (0, ENDED, -signal.SIGTERM), f"exit code {code}\n{self.fleet.log_of(name)}"

    def clock(self, name: str) -> Path:
        """The file that says how far a worker's clock is off."""
        return self.fleet.folder / f"{name}.clock"

    def worker(self) -> str:
        """Any of the workers."""
        return self.dice.choice(sorted(self.fleet.workers))

    def node(self) -> int:
        """The broker that leads a partition of the events or of the states, or any other."""
        topic = self.dice.choice((self.fleet.events, f"{self.fleet.group}-sessions-changelog", ""))
        return self.trio.leader(topic, self.dice.randrange(self.fleet.partitions)) if topic else self.dice.choice(NODES)

    def wait(self, least: float, most: float) -> None:
        """Let a random time pass: the moment is what is searched for."""
        time.sleep(self.dice.uniform(least, most))


def kill_worker(scene: Scene) -> None:
    """A worker's process is lost and started again."""
    name = scene.worker()
    scene.fleet.kill(name)
    scene.start(name)


def freeze_worker(scene: Scene) -> None:
    """A worker stands still, for less or more than its membership lasts, and goes on as if nothing had been."""
    worker = scene.fleet.workers[scene.worker()]
    worker.send_signal(signal.SIGSTOP)
    scene.wait(0.3, 1.6 * SESSION_TIMEOUT)
    worker.send_signal(signal.SIGCONT)


def replace_worker(scene: Scene) -> None:
    """A worker leaves in good order and comes back."""
    name = scene.worker()
    scene.leave(name)
    scene.start(name)


def change_version(scene: Scene) -> None:
    """A worker is replaced by one of the other version."""
    name = scene.worker()
    scene.leave(name)
    scene.old ^= {name}
    scene.start(name)


def set_clock(scene: Scene) -> None:
    """The clock of a worker's machine jumps."""
    scene.clock(scene.worker()).write_text(str(scene.dice.choice(JUMPS)))


def change_policy(scene: Scene) -> None:
    """The policy gets a rule that concerns nobody, or loses it."""
    scene.policies += 1
    file, mark = scene.fleet.policy, "# added\n"
    kept = file.read_text().partition(mark)[0]
    more = f"  - {{id: more-{scene.policies}, kind: no_call, params: {{tool: nobody_has_it}}}}\n"
    unfinished = file.with_suffix(".new")
    unfinished.write_text(kept + (mark + more if scene.policies % 2 else ""))
    unfinished.replace(file)


def kill_broker(scene: Scene) -> None:
    """A broker is lost as a machine is, and comes back with what it had on its disk."""
    node = scene.node()
    scene.trio.brokers[node].kill()
    scene.wait(0.5, 4.0)
    scene.trio.start([node])


def restart_broker(scene: Scene) -> None:
    """A broker is restarted in good order."""
    node = scene.node()
    scene.trio.brokers[node].stop()
    scene.trio.start([node])


def freeze_broker(scene: Scene) -> None:
    """A broker stands still, for less or more than the others wait for it."""
    broker = scene.trio.brokers[scene.node()]
    broker.signal(signal.SIGSTOP)
    scene.wait(0.3, 1.6 * SILENCE)
    broker.signal(signal.SIGCONT)


def fill_disk(scene: Scene) -> None:
    """A broker can write to no file, as on a full disk; it ends or is ended, and comes back when there is room."""
    node = scene.node()
    broker = scene.trio.brokers[node]
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (0, 0))
    scene.wait(0.5, 4.0)
    broker.kill()
    scene.trio.start([node])


def fill_worker_disk(scene: Scene) -> None:
    """A worker can write to no file, its log among them, and later it can again."""
    able = sorted(scene.fleet.workers.keys() - scene.old)  # the version before ends as if it had crashed
    if not able:
        kill_worker(scene)
        return
    worker = scene.fleet.workers[scene.dice.choice(able)]
    with suppress(ProcessLookupError):  # it ended before
        _, most = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (0, most))
        scene.wait(0.5, 4.0)
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (most, most))


def move_group(scene: Scene) -> None:
    """All workers leave, and those of another group go on with their states, from a savepoint."""
    fleet = scene.fleet
    fleet.wait_for(1)  # before that, the group may have no state to save
    names = sorted(fleet.workers)
    for name in names:
        scene.leave(name)
    scene.moves += 1
    file = fleet.folder / f"{scene.moves}.state"
    fleet.wait_until(lambda: run_state(fleet, "export", file))
    fleet.move_group(f"{fleet.group}-{scene.moves}")
    fleet.wait_until(lambda: run_state(fleet, "import", file))
    for name in names:
        scene.start(name)


def run_state(fleet: Fleet, command: str, file: Path) -> bool:
    """Whether a ``state`` command did its work; not while the brokers still count a worker that has left."""
    done = processes.run("state", command, file, fleet.cluster.url(fleet.events), "--group", fleet.group)
    said = done.stderr.decode()
    assert done.returncode in (0, ENDED), said
    return done.returncode == 0


def cut_broker(scene: Scene) -> None:
    """The workers' connections to a broker break, and no new ones come about."""
    scene.trio.proxy.cut(scene.node())
    scene.wait(0.3, 1.6 * SESSION_TIMEOUT)
    scene.trio.proxy.restore()


def cut_one_way(scene: Scene) -> None:
    """Between the workers and a broker, nothing arrives in one of the two directions."""
    scene.trio.proxy.hold(scene.node(), scene.dice.choice((TO_BROKER, FROM_BROKER)))
    scene.wait(0.3, 1.6 * SESSION_TIMEOUT)
    scene.trio.proxy.restore()


def slow_network(scene: Scene) -> None:
    """Between the workers and a broker, everything takes long."""
    scene.trio.proxy.slow(scene.node(), scene.dice.uniform(0.05, 1.0))
    scene.wait(1.0, 5.0)
    scene.trio.proxy.restore()


Disturbance = Callable[[Scene], None]

WORKERS: Final[tuple[Disturbance, ...]] = (
    *(kill_worker, freeze_worker, replace_worker, set_clock, change_policy),
    *(fill_worker_disk, move_group),
)
BROKERS: Final[tuple[Disturbance, ...]] = (kill_broker, restart_broker, freeze_broker, fill_disk)
NETWORK: Final[tuple[Disturbance, ...]] = (cut_broker, cut_one_way, slow_network)
ALL: Final = (*WORKERS, *BROKERS, *NETWORK)


def drawn(dice: Random, count: int, kinds: Iterable[Disturbance] = ALL) -> list[Disturbance]:
    """So many disturbances in a random order, of each kind as many as of any other, give or take one."""
    listed = list(kinds)
    shares = [dice.sample(listed, len(listed)) for _ in range(0, count, len(listed))]
    return [disturb for share in shares for disturb in share][:count]
