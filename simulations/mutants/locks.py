"""Bugs of the lock table, the planning of windows and the lanes: locks dropped, released early, waited for wrongly."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

LOCKS = (
    Mutant(
        "lock-dropped",
        """
        @ LockTable.issue
        - holder.keys
        + holder.keys[:-1]
        """,
        "the last key of a segment is not locked",
    ),
    Mutant(
        "lock-first-change-only",
        """
        @ Dispatcher._plan_rows
        - segment.keys += keys
        + segment.keys = segment.keys or list(keys)
        """,
        "a segment locks the keys of its first change only",
    ),
    Mutant(
        "lock-released-early",
        """
        @ Lane.ready
        - self.queue[0].runnable
        + self.queue[0].holder.pending_predecessors <= 1

        @ Lane.cut
        - queue[0].runnable
        + queue[0].holder.pending_predecessors <= 1
        """,
        "a segment runs while one that it must follow is not committed",
    ),
    Mutant(
        "lock-released-when-sent",
        """
        @ BatchScheduler.send
        + for segment in lane.queue:
        +     if segment.runnable:
        +         for successor in segment.holder.successors:
        +             successor.pending_predecessors -= 1
        +         segment.holder.successors = []
          lane.cut(self.order.most_rows)
        """,
        "waiters are woken when a batch is sent, not when it is committed",
    ),
    Mutant(
        "lock-of-a-later-holder-released",
        """
        @ LockTable.release
        - if tail is not holder and tail is not None:
        -     held[own] = tail
        """,
        "a commit frees its keys though later segments hold them by now",
    ),
    Mutant(
        "lock-tail-is-an-earlier-segment",
        """
        @ Dispatcher._plan_rows
        - for segment in made: ...
        + for segment in reversed(made): ...
        """,
        "of two segments with one key the earlier is remembered as its last holder",
    ),
    Mutant(
        "wait-for-one-only",
        """
        @ Dispatcher._plan_rows
        - [s for s in dict.fromkeys(predecessors) if s.lane != lane]
        + [s for s in dict.fromkeys(predecessors) if s.lane != lane][:1]
        """,
        "a segment waits for one of those that it must follow",
    ),
    Mutant(
        "wait-for-last-key-only",
        """
        @ Dispatcher._predecessors
        - waits.setdefault(groups.first[key], []).append(segment)
        + waits[groups.first[key]] = [segment]
        """,
        "of a change's keys in flight only the last is waited for",
    ),
    Mutant(
        "wait-in-a-running-segment",
        """
        @ Dispatcher._plan_rows
        - segment is None or predecessors or len(segment.changes) >= longest[lane]
        + segment is None or len(segment.changes) >= longest[lane]
        """,
        "a change that must wait joins a segment that does not",
    ),
    Mutant(
        "waiters-not-woken",
        """
        @ LockTable.release
        - holder.successors
        + holder.successors[:1]
        """,
        "a commit wakes the first of its waiters only",
    ),
    Mutant(
        "moded-locks-not-released",
        """
        @ LockTable.release
        - for key, _ in holder.requests:
        -     self._release_request(key, holder)
        """,
        "locks with readers are never released",
    ),
    Mutant(
        "moded-release-forgets-readers",
        """
        @ LockTable._release_request
        - self.writers -= tail.exclusive is holder
        - if tail.leave(holder):
        -     del self._tails[key]
        + if tail.exclusive is holder or tail.leave(holder):
        +     self.writers -= tail.exclusive is holder
        +     del self._tails[key]
        """,
        "when the writer of a key commits, the readers behind it are forgotten",
    ),
    Mutant(
        "moded-reader-forgets-writer",
        """
        @ _Tail.take
          self.shared.append(holder)
        + self.exclusive = None
        """,
        "a second reader overtakes the writer that the first one waits for",
    ),
    Mutant(
        "moded-last-reader-only",
        """
        @ _Tail.take
        - self.shared.append(holder)
        + self.shared = [holder]
        """,
        "of several readers a writer waits for the last only",
        row=10,
    ),
    Mutant(
        "moded-readers-not-waited-for",
        """
        @ LockTable.predecessors
        - if mode: ...
        + if mode and tail.exclusive is not None: ...
        """,
        "a writer waits for readers only where a writer is before them",
    ),
    Mutant(
        "moded-writer-not-waited-for",
        """
        @ LockTable.predecessors
        - tail.exclusive is not None
        + mode and tail.exclusive is not None
        """,
        "readers do not wait for the writer before them",
    ),
    Mutant(
        "moded-not-waited-for",
        """
        @ Dispatcher._plan_rows
        - (predecessors or []) + self.locks.predecessors(written[i])
        + predecessors or []
        """,
        "rows take locks with readers but do not wait for them",
    ),
    Mutant(
        "writer-in-flight-overlooked",
        """
        @ Dispatcher._writes
        - self.locks.writers > 0
        + False
        """,
        "readers of a window without writers do not wait for those of an earlier one",
    ),
    Mutant(
        "writer-of-the-window-overlooked",
        """
        @ Dispatcher._writes
        - any(mode for own in requests if own for _, mode in own)
        + False
        """,
        "writers of a window do not wait for readers where no writer is in flight",
    ),
    Mutant(
        "moded-not-waited-for-whole",
        """
        @ Dispatcher.plan_transactions
        - [*self.locks.holders(keys).values(), *self.locks.predecessors(list(modes.items()))]
        + [*self.locks.holders(keys).values()]
        """,
        "whole transactions do not wait for locks with readers",
    ),
    Mutant(
        "moded-downgraded-in-a-transaction",
        """
        @ Dispatcher.plan_transactions
        - modes.get(key, S)
        + S
        """,
        "a transaction that writes a key and later reads it holds it as a reader",
    ),
    Mutant(
        "group-of-first-key-only",
        """
        @ ConflictGroups.__init__
          joined = True
        + break
        """,
        "a change joins one of the conflict groups that it touches",
    ),
    Mutant(
        "group-root-one-hop",
        """
        @ ConflictGroups.__init__
        - [_root(parent, i) for i in parent] if joined else parent
        + list(parent)
        """,
        "a chain of conflicts is several groups, so that it takes several lanes",
    ),
    Mutant(
        "lane-out-of-log-order",
        """
        @ Dispatcher._plan_rows
        - enumerate(zip(changes, exclusive, lanes, strict=True))
        + sorted(enumerate(zip(changes, exclusive, lanes, strict=True)), key=lambda entry: groups.roots[entry[0]])
        """,
        "groups are appended whole to a lane, so that a child comes before its parent",
        row=10,
    ),
    Mutant(
        "lane-past-a-blocked-segment",
        """
        @ Lane.cut
          segment = queue.popleft()
        + if self.queue and not self.queue[0].runnable:
        +     self.queue.rotate(-1)
        """,
        "a batch goes on behind a segment that has to wait, which then comes last",
        row=10,
    ),
    Mutant(
        "had-whole-beside-others",
        """
        @ LockTable.only_on
        - all(holder.lane == lane for holder in before)
        + True
        """,
        "a lane has a table whole while changes of it are in flight on other lanes",
    ),
    Mutant(
        "had-whole-beside-the-last-holder",
        """
        @ LockTable.only_on
        - tail.shared if tail.exclusive is None else [tail.exclusive, *tail.shared]
        + tail.shared
        """,
        "a lane has a table whole while another one does",
    ),
    Mutant(
        "had-whole-beside-untold",
        """
        @ LockTable.only_on
        - if self.without_tables:
        -     return False
        """,
        "a lane has a table whole while segments that do not tell their tables are in flight",
    ),
    Mutant(
        "rows-do-not-share-their-table",
        """
        @ Dispatcher._plan_rows
        - dict.fromkeys([table.target.name for table in tables])
        + ()
        """,
        "a lane has a table whole while changes that took keys only are in flight on others",
    ),
    Mutant(
        "whole-table-not-waited-for",
        """
        @ Dispatcher._plan_rows
        - holders = self._table_lock_holders(changes) if locks_tables else {}
        + holders: dict[Binding, LockHolder] = {}
        """,
        "changes do not wait for the lane that has their table whole",
    ),
    Mutant(
        "whole-table-waited-for-once",
        """
        @ Dispatcher._plan_rows
        - [{} for _ in self.lanes]
        + [{}] * len(self.lanes)
        """,
        "of several lanes with changes of a table that another one has whole, the first waits",
    ),
    Mutant(
        "had-whole-with-readers",
        """
        @ Dispatcher._blocks
        - table not in self._requests
        + True
        """,
        "a table with keys that have readers, as other tables or copies are, is had whole and takes none of them",
    ),
)
