"""What operations on whole tables become at a target; those of ALTER TABLE: `altered_table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from tidelock.adapters.config.feed import TableRule
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.altered_table import alter_table
from tidelock.adapters.ddl.changed_table import Before
from tidelock.adapters.ddl.exchanged import altered_by_exchange, exchanges
from tidelock.adapters.ddl.index_names import IndexNames, named_like, taken_names
from tidelock.adapters.ddl.kept_shadows import Shadow
from tidelock.adapters.ddl.lexer import without_settings
from tidelock.adapters.ddl.operations import AlterTable, CreateLike, CreateTable, DropTable, RenameTable
from tidelock.adapters.ddl.rules import DdlRules, NotFollowed
from tidelock.adapters.ddl.statement import operations
from tidelock.adapters.ddl.table_making import making
from tidelock.adapters.ddl.told import indexed, told_before, told_columns, with_keys_of_new
from tidelock.adapters.schema.create_table import identifier, qualified
from tidelock.engine.model.emptying import children_first
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl


class Followed:
    """An ALTERED statement on its way to the target.  `tables`, `shadows`: the target's, and those that are known, as
    they are now."""

    def __init__(
        self,
        ddl: Ddl,
        dialect: Dialect,
        target_name: Callable[[TableName], TableName],
        tables: Mapping[TableName, TargetTable],
        rules: DdlRules,
        shadows: Mapping[TableName, Shadow],
    ) -> None:
        self._ddl, self._dialect, self._rules = ddl, dialect, rules
        self._target_name, self._tables, self._shadows = target_name, tables, shadows

    def statements(self) -> list[str]:
        """Returns what is still to be done for it, in order.  Raises NotFollowed, NotPlain, TargetError."""
        made: list[str] = []
        renames: list[RenameTable] = []
        found = operations(self._ddl)
        dropped = [one for one in found if isinstance(one, DropTable)]
        for one in found:
            match one:
                case RenameTable():
                    renames.append(one)
                case DropTable() if one is dropped[0]:
                    made += self._dropped(dropped)
                case CreateTable():
                    made += self._made(one)
                case CreateLike():
                    made += self._made_like(one)
                case AlterTable():
                    made += self._altered_and_told(one)
        return made + (self._renamed(renames) if renames else [])

    def _taken(self, name: TableName) -> TableName | None:
        """Returns a table of the statement as the log's rows name it; None where the feed does not take it."""
        folded = TableName(name.schema.lower(), name.table.lower())
        return next((one for one in (name, folded) if one in self._ddl.tables), None)

    def _dropped(self, drops: Sequence[DropTable]) -> list[str]:
        """Returns one statement for all tables that go: those that refer to others first, as MariaDB asks for."""
        tables = [table for one in drops if (table := self._taken(one.table)) is not None]
        if not tables or not self._rules.admits(drops[0].kind, "DROP TABLE") or self._rules.keeps(drops[0].kind):
            return []
        places = children_first(list(dict.fromkeys(map(self._target_name, tables))), self._tables)
        return [f"DROP TABLE IF EXISTS {', '.join(map(self._qualified, places))}"]

    def _made(self, made: CreateTable) -> list[str]:
        """Returns what makes a table anew, whose former rows are gone."""
        table = self._taken(made.table)
        if table is None or not self._rules.admits(made.kind, "CREATE TABLE"):
            return []
        place = self._target_name(table)
        if place in self._tables and self._rules.policy.of("drop_table") != "apply":
            raise NotFollowed(f"the target has {place} still, which it keeps: its rows would be of both")
        others = {name: there for name, there in self._tables.items() if name != place}
        return making(made, table, place, self._dialect, self._rules, others, self._ddl.former)

    def _made_like(self, made: CreateLike) -> list[str]:
        table = self._taken(made.table)
        if table is None or not self._rules.admits(made.kind, "CREATE TABLE"):
            return []
        self._require_same_rule(table, made.like)
        place, like = self._target_name(table), self._target_name(made.like)
        if like not in self._tables:
            raise NotFollowed(f"the target has no table {like}, in whose form {place} is to be made")
        if self._dialect == "mysql":
            return [f"CREATE TABLE IF NOT EXISTS {self._qualified(place)} LIKE {self._qualified(like)}"]
        if place in self._tables:
            return []
        form = f"(LIKE {self._qualified(like)} INCLUDING ALL)"
        return [f"CREATE TABLE {self._qualified(place)} {form}", named_like(place, like)]

    def _altered(self, alter: AlterTable) -> list[str]:
        table = self._taken(alter.table)
        if table is None:
            return []
        place, there = self._there(table)
        ddl, before = self._ddl, Before(self._ddl.former)
        # A `SET STATEMENT` may say another mode than the session's, and another time.
        if without_settings(ddl.statement) == ddl.statement:
            before = Before(ddl.former, ddl.sql_mode, ddl.moment_us, ddl.zone)
        others = taken_names(self._tables)
        if self._ddl.told is not None:
            before, alter = Before(told_before(self._ddl.told)), indexed(alter, there, self._dialect)
        return alter_table(replace(alter, table=table), place, there, self._dialect, self._rules, before, others)

    def _altered_and_told(self, alter: AlterTable) -> list[str]:
        """Returns what the clauses become, and new columns that no statement says, before the keys that they are of."""
        altered, new = self._altered(alter), self._told(alter)
        told = self._ddl.told
        return [*new, *altered] if told is not None and with_keys_of_new(told, self._ddl.added) else [*altered, *new]

    def _there(self, table: TableName) -> tuple[TableName, TargetTable]:
        """Returns the target's table of one of the feed's, with its name.  Raises NotFollowed."""
        place = self._target_name(table)
        if place not in self._tables:
            raise NotFollowed(f"the target has no table {place}")
        return place, self._tables[place]

    def _exchanged(self, table: TableName, shadow: TableName) -> list[str]:
        place, there = self._there(table)
        alter = altered_by_exchange(table, shadow, self._shadows, there, self._rules)
        return alter_table(alter, place, there, self._dialect, self._rules, others=taken_names(self._tables))

    def _told(self, alter: AlterTable) -> list[str]:
        """Returns what the log tells of columns that are new, which no statement says."""
        table = self._taken(alter.table)
        if table is None or self._ddl.told is None:
            return []
        place = self._target_name(table)
        return told_columns(self._ddl, table, place, self._tables[place], self._dialect, self._rules)

    # ------------------------------------------------------------------ RENAME TABLE

    def _renamed(self, renames: Sequence[RenameTable]) -> list[str]:
        if found := exchanges(renames, self._taken):
            return [words for table, shadow in found.items() for words in self._exchanged(table, shadow)]
        pairs = [pair for one in renames if (pair := self._pair(one)) is not None]
        if renames[0].if_exists and not any(name in self._tables for pair in pairs for name in pair):
            return []
        if not pairs or not self._rules.admits("rename_table", "RENAME TABLE") or not self._are_open(pairs):
            return []
        if self._dialect == "mysql":
            words = (f"{self._qualified(one)} TO {self._qualified(to)}" for one, to in pairs)
            return [f"RENAME TABLE {', '.join(words)}"]
        made = []
        names = IndexNames(self._tables)
        for one, to in pairs:
            if one.schema != to.schema:
                made.append(f"ALTER TABLE {self._qualified(one)} SET SCHEMA {identifier('postgres', to.schema)}")
            if one.table != to.table:
                moved = self._qualified(TableName(to.schema, one.table))
                made.append(f"ALTER TABLE {moved} RENAME TO {identifier('postgres', to.table)}")
            made += names.renamed(one, to)
        return made

    def _pair(self, rename: RenameTable) -> tuple[TableName, TableName] | None:
        """Returns both names at the target; None where the feed takes neither."""
        table, to = self._taken(rename.table), self._taken(rename.to)
        if table is None and to is None:
            return None
        if to is None:
            raise NotFollowed(f"{rename.table} gets a name that the feed does not take, {rename.to}")
        if table is None:
            raise NotFollowed(f"{rename.to} is a table that the feed did not take so far, {rename.table}")
        self._require_same_rule(table, to)
        return self._target_name(table), self._target_name(to)

    def _are_open(self, pairs: Sequence[tuple[TableName, TableName]]) -> bool:
        """Tells whether the tables have their old names.  Raises NotFollowed where that cannot be told."""
        before: dict[TableName, bool] = {}
        now: dict[TableName, bool] = {}
        for one, to in pairs:
            before.setdefault(one, True)
            before.setdefault(to, False)
            now[one], now[to] = False, True
        there = {name: name in self._tables for name in before}
        if before == now:
            if self._dialect == "mysql":
                raise NotFollowed("it exchanges names and leaves no other, so nobody could tell whether it ran")
            return True
        if there in (before, now):
            return there == before
        found = ", ".join(str(name) for name, is_there in there.items() if is_there) or "none of them"
        raise NotFollowed(f"of the tables that it renames the target has {found}")

    def _require_same_rule(self, one: TableName, other: TableName) -> None:
        """Raises NotFollowed where the feed takes other columns or rows of the two."""
        rules = [_anywhere(self._rules.select(name)) for name in (one, other)]
        if rules[0] is None or rules[0] != rules[1]:
            raise NotFollowed(f"the feed takes {one} and {other} by different rules, or not both")

    def _qualified(self, name: TableName) -> str:
        return qualified(self._dialect, name)


def _anywhere(rule: TableRule | None) -> TableRule | None:
    """Returns a rule without the names of its tables."""
    return None if rule is None else replace(rule, source="", target="", weight=0)
