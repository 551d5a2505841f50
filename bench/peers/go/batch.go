package main

import (
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// change is what a batch does to one row in the end: the row is nil where it is gone. existed: it was there before.
type change struct {
	existed bool
	row     []any
}

// tableChanges holds one change a primary key, whatever happened to its row meanwhile.
type tableChanges struct {
	name    string
	columns []string
	key     int
	rows    map[any]*change
}

// batch is a run of whole transactions, merged row by row.
type batch struct {
	position mysql.Position
	changes  int
	tables   []*tableChanges
}

func newBatch() *batch { return &batch{} }

func (b *batch) add(event *replication.RowsEvent) error {
	table, err := b.table(event.Table)
	if err != nil {
		return err
	}
	switch event.Type() {
	case replication.EnumRowsEventTypeInsert:
		for _, row := range event.Rows {
			table.put(row, false)
		}
		b.changes += len(event.Rows)
	case replication.EnumRowsEventTypeUpdate:
		for at := 0; at+1 < len(event.Rows); at += 2 {
			table.replace(event.Rows[at], event.Rows[at+1])
		}
		b.changes += len(event.Rows) / 2
	case replication.EnumRowsEventTypeDelete:
		for _, row := range event.Rows {
			table.remove(row)
		}
		b.changes += len(event.Rows)
	}
	return nil
}

func (b *batch) table(of *replication.TableMapEvent) (*tableChanges, error) {
	name := quoted(string(of.Schema)) + "." + quoted(string(of.Table))
	for _, table := range b.tables {
		if table.name == name {
			return table, nil
		}
	}
	if len(of.PrimaryKey) != 1 || len(of.ColumnName) == 0 {
		return nil, fmt.Errorf("%s: needs a primary key of one column, and binlog_row_metadata=FULL at the source", name)
	}
	table := &tableChanges{name, of.ColumnNameString(), int(of.PrimaryKey[0]), map[any]*change{}}
	b.tables = append(b.tables, table)
	return table, nil
}

// put sets the row of its key; existed counts only for a key that this batch has not touched yet.
func (t *tableChanges) put(row []any, existed bool) {
	if known, ok := t.rows[row[t.key]]; ok {
		known.row = row
		return
	}
	t.rows[row[t.key]] = &change{existed, row}
}

func (t *tableChanges) replace(before, after []any) {
	if before[t.key] == after[t.key] {
		t.put(after, true)
		return
	}
	t.remove(before)
	t.put(after, false)
}

func (t *tableChanges) remove(row []any) {
	if known, ok := t.rows[row[t.key]]; ok {
		known.row = nil
		return
	}
	t.rows[row[t.key]] = &change{existed: true}
}
