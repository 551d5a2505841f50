package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

const books = `CREATE TABLE IF NOT EXISTS canal_position (one int PRIMARY KEY, file text, "offset" bigint)`

// apply writes batches, each in one transaction, until their channel is closed.
func apply(ctx context.Context, url string, batches <-chan *batch) error {
	target, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer target.Close(context.WithoutCancel(ctx))
	if _, err := target.Exec(ctx, "SET synchronous_commit = off"); err != nil {
		return err
	}
	if _, err := target.Exec(ctx, books); err != nil {
		return err
	}
	for next := range batches {
		if err := pgx.BeginFunc(ctx, target, func(tx pgx.Tx) error { return write(ctx, tx, next) }); err != nil {
			return err
		}
	}
	return nil
}

func write(ctx context.Context, tx pgx.Tx, b *batch) error {
	for _, table := range b.tables {
		if err := table.write(ctx, tx); err != nil {
			return fmt.Errorf("%s: %w", table.name, err)
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO canal_position VALUES (1, $1, $2)
		ON CONFLICT (one) DO UPDATE SET file = excluded.file, "offset" = excluded."offset"`,
		b.position.Name, int64(b.position.Pos))
	return err
}

// write deletes every row that changes and copies in those that stay: so no unique value is held twice on the way.
func (t *tableChanges) write(ctx context.Context, tx pgx.Tx) error {
	var gone []string
	var rows bytes.Buffer
	for key, change := range t.rows {
		if change.existed {
			gone = append(gone, text(key))
		}
		if change.row != nil {
			line(&rows, change.row)
		}
	}
	if len(gone) > 0 {
		key := quoted(t.columns[t.key])
		// The key's column gives the array its type: text would not use the index.
		sql := fmt.Sprintf("DELETE FROM %s WHERE %s = ANY($1)", t.name, key)
		if _, err := tx.Exec(ctx, sql, "{"+strings.Join(gone, ",")+"}"); err != nil {
			return err
		}
	}
	if rows.Len() == 0 {
		return nil
	}
	names := make([]string, len(t.columns))
	for at, name := range t.columns {
		names[at] = quoted(name)
	}
	_, err := tx.Conn().PgConn().CopyFrom(ctx, &rows, fmt.Sprintf("COPY %s (%s) FROM STDIN", t.name, strings.Join(names, ",")))
	return err
}

var escapes = strings.NewReplacer("\\", "\\\\", "\n", "\\n", "\r", "\\r", "\t", "\\t")

// line adds a row in COPY's text format.
func line(into *bytes.Buffer, row []any) {
	for at, value := range row {
		if at > 0 {
			into.WriteByte('\t')
		}
		if value == nil {
			into.WriteString("\\N")
		} else {
			escapes.WriteString(into, text(value))
		}
	}
	into.WriteByte('\n')
}

func text(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case int64:
		return strconv.FormatInt(value, 10)
	case int32:
		return strconv.FormatInt(int64(value), 10)
	default:
		return fmt.Sprint(value)
	}
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
