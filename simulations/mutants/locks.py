"""Bugs of the lock table, the planning of windows and the lanes: locks dropped, released early, waited for wrongly."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

LOCKS = (
    Mutant(
        "lock-dropped",
        "tidelock.engine.parallel.lock_table",
        """
        - self._exclusive.update(dict.fromkeys(segment.keys, segment))
        + self._exclusive.update(dict.fromkeys(segment.keys[:-1], segment))
        """,
        "the last key of a segment is not locked",
    ),
    Mutant(
        "lock-first-change-only",
        "tidelock.engine.parallel.dispatcher",
        """
        - segment.keys += keys
        + segment.keys = segment.keys or list(keys)
        """,
        "a segment locks the keys of its first change only",
    ),
    Mutant(
        "lock-released-early",
        "tidelock.engine.parallel.lanes",
        """
        - return not self.running and bool(self.queue) and self.queue[0].blockers == 0
        + return not self.running and bool(self.queue) and self.queue[0].blockers <= 1

        - while self.queue and self.queue[0].blockers == 0 and (not rows or rows + len(self.queue[0].changes) <= limit):
        + while self.queue and self.queue[0].blockers <= 1 and (not rows or rows + len(self.queue[0].changes) <= limit):
        """,
        "a segment runs while one that it must follow is not committed",
    ),
    Mutant(
        "lock-released-when-sent",
        "tidelock.engine.batch.scheduler",
        """
          if lane.ready:
        +     for segment in lane.queue:
        +         if segment.blockers == 0:
        +             for waiter in segment.waiters:
        +                 waiter.blockers -= 1
        +             segment.waiters = []
        """,
        "waiters are woken when a batch is sent, not when it is committed",
    ),
    Mutant(
        "lock-of-a-later-holder-released",
        "tidelock.engine.parallel.lock_table",
        """
        - if tail is not segment and tail is not None:
        -     held[own] = tail
        """,
        "a commit frees its keys though later segments hold them by now",
    ),
    Mutant(
        "lock-tail-is-an-earlier-segment",
        "tidelock.engine.parallel.dispatcher",
        """
        - for segment in made:
        + for segment in reversed(made):
        """,
        "of two segments with one key the earlier is remembered as its last holder",
    ),
    Mutant(
        "wait-for-one-only",
        "tidelock.engine.parallel.dispatcher",
        """
        - blockers = [s for s in dict.fromkeys(blockers) if s.lane != lane]
        + blockers = [s for s in dict.fromkeys(blockers) if s.lane != lane][:1]
        """,
        "a segment waits for one of those that it must follow",
    ),
    Mutant(
        "wait-for-last-key-only",
        "tidelock.engine.parallel.dispatcher",
        """
        - waits.setdefault(groups.first[key], []).append(segment)
        + waits[groups.first[key]] = [segment]
        """,
        "of a change's keys in flight only the last is waited for",
    ),
    Mutant(
        "wait-in-a-running-segment",
        "tidelock.engine.parallel.dispatcher",
        """
        - if segment is None or blockers or len(segment.changes) >= longest[lane]:
        + if segment is None or len(segment.changes) >= longest[lane]:
        """,
        "a change that must wait joins a segment that does not",
    ),
    Mutant(
        "waiters-not-woken",
        "tidelock.engine.parallel.lock_table",
        """
        - for waiter in segment.waiters:
        + for waiter in segment.waiters[:1]:
        """,
        "a commit wakes the first of its waiters only",
    ),
    Mutant(
        "moded-locks-not-released",
        "tidelock.engine.parallel.lock_table",
        """
        - for key, _ in segment.moded:
        -     self._release_moded(key, segment)
        """,
        "locks with readers are never released",
    ),
    Mutant(
        "moded-release-forgets-readers",
        "tidelock.engine.parallel.lock_table",
        """
        - self.writers -= tail.exclusive is segment
        - if tail.leave(segment):
        + if tail.exclusive is segment or tail.leave(segment):
        +     self.writers -= tail.exclusive is segment
        """,
        "when the writer of a key commits, the readers behind it are forgotten",
    ),
    Mutant(
        "moded-reader-forgets-writer",
        "tidelock.engine.parallel.lock_table",
        """
          self.shared.append(segment)
        + self.exclusive = None
        """,
        "a second reader overtakes the writer that the first one waits for",
    ),
    Mutant(
        "moded-last-reader-only",
        "tidelock.engine.parallel.lock_table",
        """
        - self.shared.append(segment)
        + self.shared = [segment]
        """,
        "of several readers a writer waits for the last only",
        row=10,
    ),
    Mutant(
        "moded-readers-not-waited-for",
        "tidelock.engine.parallel.lock_table",
        """
              found[tail.exclusive.order] = tail.exclusive
        - if exclusive:
        + if exclusive and tail.exclusive is not None:
        """,
        "a writer waits for readers only where a writer is before them",
    ),
    Mutant(
        "moded-writer-not-waited-for",
        "tidelock.engine.parallel.lock_table",
        """
        - if tail.exclusive is not None:
        + if exclusive and tail.exclusive is not None:
        """,
        "readers do not wait for the writer before them",
    ),
    Mutant(
        "moded-not-waited-for",
        "tidelock.engine.parallel.dispatcher",
        """
        - blockers = (blockers or []) + self.locks.moded_holders(written[i])
        + blockers = blockers or []
        """,
        "rows take locks with readers but do not wait for them",
    ),
    Mutant(
        "writer-in-flight-overlooked",
        "tidelock.engine.parallel.dispatcher",
        """
        - return self.locks.writers > 0 or any(exclusive for own in moded if own for _, exclusive in own)
        + return any(exclusive for own in moded if own for _, exclusive in own)
        """,
        "readers of a window without writers do not wait for those of an earlier one",
    ),
    Mutant(
        "writer-of-the-window-overlooked",
        "tidelock.engine.parallel.dispatcher",
        """
        - return self.locks.writers > 0 or any(exclusive for own in moded if own for _, exclusive in own)
        + return self.locks.writers > 0
        """,
        "writers of a window do not wait for readers where no writer is in flight",
    ),
    Mutant(
        "moded-not-waited-for-whole",
        "tidelock.engine.parallel.dispatcher",
        """
        - blockers = [*self.locks.holders(keys).values(), *self.locks.moded_holders(list(modes.items()))]
        + blockers = [*self.locks.holders(keys).values()]
        """,
        "whole transactions do not wait for locks with readers",
    ),
    Mutant(
        "moded-downgraded-in-a-transaction",
        "tidelock.engine.parallel.dispatcher",
        """
        - modes[key] = is_exclusive or modes.get(key, False)
        + modes[key] = is_exclusive
        """,
        "a transaction that writes a key and later reads it holds it as a reader",
    ),
    Mutant(
        "group-of-first-key-only",
        "tidelock.engine.parallel.conflict_groups",
        """
          joined = True
        + break
        """,
        "a change joins one of the conflict groups that it touches",
    ),
    Mutant(
        "group-root-one-hop",
        "tidelock.engine.parallel.conflict_groups",
        """
        - self.roots = [_root(parent, i) for i in parent] if joined else parent
        + self.roots = list(parent)
        """,
        "a chain of conflicts is several groups, so that it takes several lanes",
    ),
    Mutant(
        "lane-out-of-log-order",
        "tidelock.engine.parallel.dispatcher",
        """
        - for i, (change, keys, lane) in enumerate(zip(changes, exclusive, lanes, strict=True)):
        + for i, (change, keys, lane) in sorted(
        +     enumerate(zip(changes, exclusive, lanes, strict=True)), key=lambda entry: groups.roots[entry[0]]
        + ):
        """,
        "groups are appended whole to a lane, so that a child comes before its parent",
        row=10,
    ),
    Mutant(
        "lane-past-a-blocked-segment",
        "tidelock.engine.parallel.lanes",
        """
          segment = self.queue.popleft()
        + if self.queue and self.queue[0].blockers:
        +     self.queue.rotate(-1)
        """,
        "a batch goes on behind a segment that has to wait, which then comes last",
        row=10,
    ),
    Mutant(
        "had-whole-beside-others",
        "tidelock.engine.parallel.lock_table",
        """
        - return all(segment.lane == lane for segment in before)
        + return True
        """,
        "a lane has a table whole while changes of it are in flight on other lanes",
    ),
    Mutant(
        "had-whole-beside-the-last-holder",
        "tidelock.engine.parallel.lock_table",
        """
        - before = tail.shared if tail.exclusive is None else [tail.exclusive, *tail.shared]
        + before = tail.shared
        """,
        "a lane has a table whole while another one does",
    ),
    Mutant(
        "had-whole-beside-untold",
        "tidelock.engine.parallel.lock_table",
        """
        - if self.untold:
        -     return False
        """,
        "a lane has a table whole while segments that do not tell their tables are in flight",
    ),
    Mutant(
        "rows-do-not-share-their-table",
        "tidelock.engine.parallel.dispatcher",
        """
        - self.locks.take_tables(segment, dict.fromkeys([table.target.name for table in tables]), whole=False)
        + self.locks.take_tables(segment, (), whole=False)
        """,
        "a lane has a table whole while changes that took keys only are in flight on others",
    ),
    Mutant(
        "whole-table-not-waited-for",
        "tidelock.engine.parallel.dispatcher",
        """
        - having = self._having_whole(changes) if told else {}
        + having: dict[Binding, Segment] = {}
        """,
        "changes do not wait for the lane that has their table whole",
    ),
    Mutant(
        "whole-table-waited-for-once",
        "tidelock.engine.parallel.dispatcher",
        """
        - followed: list[dict[Segment, None]] = [{} for _ in self.lanes]  # by lane, of `having`: once for all behind
        + followed: list[dict[Segment, None]] = [{}] * len(self.lanes)
        """,
        "of several lanes with changes of a table that another one has whole, the first waits",
    ),
    Mutant(
        "had-whole-with-readers",
        "tidelock.engine.parallel.dispatcher",
        """
        - if table not in self._moded
        - and names[table.target.name] == 1
        + if names[table.target.name] == 1
        """,
        "a table with keys that have readers, as other tables or copies are, is had whole and takes none of them",
    ),
)
