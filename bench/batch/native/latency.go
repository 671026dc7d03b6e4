package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgx in CASE=latency: the shapes of bench/latency/shapes.mjs, each trial on its own connections. A connection of pgx
// runs one query at a time, so it has no concurrent calls. It names a statement at its first run.
const single = "select $1::int4 as n, 'single' as t"

var five = []string{
	"select $1::int4 as n, 'first' as t",
	"select $1::int4 as n, 'second' as t",
	"select $1::int4 as n, 'third' as t",
	"select $1::int4 as n, 'fourth' as t",
	"select $1::int4 as n, 'fifth' as t",
}

var (
	singleRow = []latencyRow{{7, "single"}}
	fiveRows  = []latencyRow{{0, "first"}, {1, "second"}, {2, "third"}, {3, "fourth"}, {4, "fifth"}}
)

type latencyRow struct {
	N int32
	T string
}

// The measured part of a trial returns rows; measured compares them.
type latencyWork func(ctx context.Context) ([]latencyRow, error)
type latencyTrial func(ctx context.Context, asked request) (reply, error)

func openLatency(ctx context.Context, _ string) (map[string]shape, error) {
	trials := map[string]latencyTrial{
		"connect_new":   connectNew,
		"connect_known": connectKnown,
		"batch_new_5":   onConnection(0, fiveRows, sendBatch),
		"batch_known_5": onConnection(1, fiveRows, sendBatch),
		"transaction_3": onConnection(1, fiveRows[:3], inTransaction),
		"scope":         onConnection(1, []latencyRow{{7, "7"}}, ofTenant),
	}
	shapes := map[string]shape{}
	for name, trial := range trials {
		shapes[name] = func(asked request) (func() (reply, error), error) {
			return func() (reply, error) { return trial(ctx, asked) }, nil
		}
	}
	return shapes, nil
}

func connectNew(ctx context.Context, asked request) (reply, error) {
	var conn *pgx.Conn
	result, err := measured(ctx, asked, singleRow, func(ctx context.Context) ([]latencyRow, error) {
		var err error
		if conn, err = pgx.Connect(ctx, asked.URL); err != nil {
			return nil, err
		}
		return selectRows(ctx, conn, single, 7)
	})
	if err != nil {
		return nil, err
	}
	return result, conn.Close(ctx)
}

func connectKnown(ctx context.Context, asked request) (reply, error) {
	conn, err := pgx.Connect(ctx, asked.URL)
	if err != nil {
		return nil, err
	}
	if _, err := selectRows(ctx, conn, single, 7); err != nil {
		return nil, err
	}
	if err := conn.Close(ctx); err != nil {
		return nil, err
	}
	return connectNew(ctx, asked)
}

// onConnection measures work on an open connection that has run a statement, after the given number of runs of work
// itself.
func onConnection(
	before int, expected []latencyRow, work func(context.Context, *pgx.Conn) ([]latencyRow, error),
) latencyTrial {
	return func(ctx context.Context, asked request) (reply, error) {
		conn, err := pgx.Connect(ctx, asked.URL)
		if err != nil {
			return nil, err
		}
		defer conn.Close(ctx)
		if _, err := selectRows(ctx, conn, single, 7); err != nil {
			return nil, err
		}
		for range before {
			if _, err := work(ctx, conn); err != nil {
				return nil, err
			}
		}
		return measured(ctx, asked, expected, func(ctx context.Context) ([]latencyRow, error) { return work(ctx, conn) })
	}
}

func sendBatch(ctx context.Context, conn *pgx.Conn) ([]latencyRow, error) {
	batch := &pgx.Batch{}
	for n, text := range five {
		batch.Queue(text, n)
	}
	results := conn.SendBatch(ctx, batch)
	found := []latencyRow{}
	for range five {
		rows, err := results.Query()
		if err != nil {
			return nil, err
		}
		some, err := pgx.CollectRows(rows, pgx.RowToStructByPos[latencyRow])
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, results.Close()
}

func inTransaction(ctx context.Context, conn *pgx.Conn) ([]latencyRow, error) {
	transaction, err := conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	found := []latencyRow{}
	for n, text := range five[:3] {
		some, err := selectRows(ctx, transaction, text, n)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, transaction.Commit(ctx)
}

// A batch in one flight: BEGIN, the setting, the statement, COMMIT.
func ofTenant(ctx context.Context, conn *pgx.Conn) ([]latencyRow, error) {
	batch := &pgx.Batch{}
	batch.Queue("begin")
	batch.Queue("select set_config('app.tenant', $1, true)", "7")
	batch.Queue("select $1::int4 as n, current_setting('app.tenant') as t", 7)
	batch.Queue("commit")
	results := conn.SendBatch(ctx, batch)
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[latencyRow])
	if err != nil {
		return nil, err
	}
	return found, results.Close()
}

type querier interface {
	Query(ctx context.Context, text string, values ...any) (pgx.Rows, error)
}

func selectRows(ctx context.Context, conn querier, text string, n int) ([]latencyRow, error) {
	rows, err := conn.Query(ctx, text, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[latencyRow])
}

func measured(ctx context.Context, asked request, expected []latencyRow, work latencyWork) (reply, error) {
	if err := say(asked.Mark, "begin"); err != nil {
		return nil, err
	}
	start := time.Now()
	found, err := work(ctx)
	if err != nil {
		return nil, err
	}
	wall := time.Since(start)
	if err := say(asked.Mark, "end"); err != nil {
		return nil, err
	}
	if !slices.Equal(found, expected) {
		return nil, fmt.Errorf("%v where %v was to come", found, expected)
	}
	return reply{"wall_ms": milliseconds(wall)}, nil
}

func say(mark, what string) error {
	response, err := http.Post(mark+"/"+what, "", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("mark %s: %s", what, response.Status)
	}
	return nil
}
