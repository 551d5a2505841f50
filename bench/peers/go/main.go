// A serial applier over go-mysql's binlog reader: it replays a MariaDB's log, from one position to another, into PostgreSQL.
//
// One goroutine decodes and merges, a second one applies, so that the next batch is made while one commits. Batches
// consist of whole transactions, are applied in the log's order and leave their position in the same transaction.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// queuedBatches is how many merged batches wait for the applier.
const queuedBatches = 1

func main() {
	source := flag.String("source", "", "HOST:PORT of the MariaDB, read as root without a password")
	target := flag.String("target", "", "URL of the PostgreSQL database; its schemas are called as the source's databases")
	start := flag.String("start", "", "FILE:OFFSET to begin at")
	until := flag.String("until", "", "FILE:OFFSET to end at")
	rows := flag.Int("batch", 2000, "row changes in a batch, at least")
	flag.Parse()
	if err := run(*source, *target, *start, *until, *rows); err != nil {
		fmt.Fprintln(os.Stderr, "canal:", err)
		os.Exit(1)
	}
}

func run(source, target, start, until string, rows int) error {
	from, err := position(start)
	if err != nil {
		return err
	}
	end, err := position(until)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	batches, applied := make(chan *batch, queuedBatches), make(chan error, 1)
	go func() {
		err := apply(ctx, target, batches)
		applied <- err
		cancel(err)
	}()
	if err := read(ctx, source, from, end, rows, batches); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	close(batches)
	return <-applied
}

// read sends batches until the log has reached end.
func read(ctx context.Context, source string, from, end mysql.Position, rows int, batches chan<- *batch) error {
	syncer, err := syncer(source)
	if err != nil {
		return err
	}
	defer syncer.Close()
	streamer, err := syncer.StartSync(from)
	if err != nil {
		return err
	}
	file, held := from.Name, newBatch()
	for {
		event, err := streamer.GetEvent(ctx)
		if err != nil {
			return err
		}
		switch content := event.Event.(type) {
		case *replication.RotateEvent:
			file = string(content.NextLogName)
		case *replication.RowsEvent:
			if err := held.add(content); err != nil {
				return err
			}
		case *replication.XIDEvent:
			held.position = mysql.Position{Name: file, Pos: event.Header.LogPos}
			reached := held.position.Compare(end) >= 0
			if held.changes < rows && !reached {
				continue
			}
			select {
			case batches <- held:
				held = newBatch()
			case <-ctx.Done():
				return ctx.Err()
			}
			if reached {
				return nil
			}
		}
	}
}

func syncer(source string) (*replication.BinlogSyncer, error) {
	host, number, err := net.SplitHostPort(source)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, err
	}
	return replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: 2,
		Flavor:   mysql.MariaDBFlavor,
		Host:     host,
		Port:     uint16(port),
		User:     "root",
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}), nil
}

func position(text string) (mysql.Position, error) {
	file, offset, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(offset, 10, 32)
	if err != nil {
		return mysql.Position{}, fmt.Errorf("%q is not FILE:OFFSET", text)
	}
	return mysql.Position{Name: file, Pos: uint32(number)}, nil
}
