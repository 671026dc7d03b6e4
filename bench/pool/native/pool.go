package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Indexes of the texts, as in bench/pool/shapes.mjs.
const (
	series = iota
	wide
	hashes
)

// wrong: rows, bytes or counts that are not what they must be. It ends the benchmark.
type wrong struct{ what string }

func (w wrong) Error() string { return w.what }

// A way runs one task. It returns the number of queries that were run, and whether the intended error has cut the task
// short.
type way func(ctx context.Context, pool *pgxpool.Pool, asked work, index int) (queries int, isCut bool, err error)

var ways = map[string]way{
	"select_1":    selectOne,
	"mixed":       mixed,
	"mixed_dirty": mixedDirty,
	"copy_out":    copyOut,
	"copy_in":     copyIn,
}

// The results of one worker.
type finding struct {
	queries, tasks, failed, cut int
	errors                      map[string]int
	latencies                   []float64
	fatal                       error
}

func perform(
	ctx context.Context, pool *pgxpool.Pool, asked work, do way, workers int, duration time.Duration,
) (reply, error) {
	var next atomic.Int64
	end := time.Now().Add(duration)
	findings := make([]finding, workers)
	var group sync.WaitGroup
	for index := range findings {
		found := &findings[index]
		found.errors = map[string]int{}
		group.Go(func() {
			for start := time.Now(); start.Before(end) && found.fatal == nil; start = time.Now() {
				found.task(start, func() (int, bool, error) { return do(ctx, pool, asked, int(next.Add(1)-1)) })
			}
		})
	}
	group.Wait()
	return gathered(findings)
}

func (f *finding) task(start time.Time, do func() (int, bool, error)) {
	f.tasks++
	queries, isCut, err := do()
	f.queries += queries
	switch {
	case err == nil && isCut:
		f.cut++
	case err == nil:
		f.latencies = append(f.latencies, milliseconds(time.Since(start)))
	case errors.As(err, new(wrong)):
		f.fatal = err
	default:
		f.failed++
		f.errors[codeOf(err)]++
	}
}

func gathered(findings []finding) (reply, error) {
	all := finding{errors: map[string]int{}}
	for _, found := range findings {
		if found.fatal != nil {
			return nil, found.fatal
		}
		all.queries += found.queries
		all.tasks += found.tasks
		all.failed += found.failed
		all.cut += found.cut
		all.latencies = append(all.latencies, found.latencies...)
		for code, count := range found.errors {
			all.errors[code] += count
		}
	}
	slices.Sort(all.latencies)
	share := func(of float64) any {
		at := int(float64(len(all.latencies)) * of)
		if at >= len(all.latencies) {
			return nil
		}
		return all.latencies[at]
	}
	return reply{
		"queries": all.queries, "tasks": all.tasks, "failed": all.failed, "cut": all.cut, "errors": all.errors,
		"p50": share(0.5), "p95": share(0.95), "p99": share(0.99),
	}, nil
}

func codeOf(err error) string {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		return failed.Code
	}
	return err.Error()
}

func pairs(ctx context.Context, pool *pgxpool.Pool, times int) (reply, error) {
	for range times {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		conn.Release()
	}
	return reply{}, nil
}

// -- queries ----------------------------------------------------------------------------------------------------------------

func selectOne(ctx context.Context, pool *pgxpool.Pool, asked work, _ int) (int, bool, error) {
	var x int32
	if err := pool.QueryRow(ctx, asked.Select1).Scan(&x); err != nil {
		return 0, false, err
	}
	if x != 1 {
		return 0, false, wrong{fmt.Sprintf("SELECT 1: %d", x)}
	}
	return 1, false, nil
}

func mixed(ctx context.Context, pool *pgxpool.Pool, asked work, index int) (int, bool, error) {
	windows := asked.Windows["mixed"]
	queries, err := inWindow(ctx, pool, asked, windows[index%len(windows)])
	return queries, false, err
}

func mixedDirty(ctx context.Context, pool *pgxpool.Pool, asked work, index int) (int, bool, error) {
	windows := asked.Windows["mixed_dirty"]
	window := windows[index%len(windows)]
	last := window[len(window)-1].Steps
	isCut := last[len(last)-1][1] == 0
	queries, err := inWindow(ctx, pool, asked, window)
	if !isCut || err != nil && codeOf(err) != asked.Intended {
		return queries, false, err
	}
	if err == nil {
		return queries, false, wrong{"a division by zero has succeeded"}
	}
	return queries + 2, true, nil // the failed query, and ROLLBACK
}

type querier interface {
	Query(ctx context.Context, text string, values ...any) (pgx.Rows, error)
}

func inWindow(ctx context.Context, pool *pgxpool.Pool, asked work, items window) (int, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	queries := 0
	for _, one := range items {
		if !one.IsTransaction {
			if err := step(ctx, conn, asked, one.Steps[0]); err != nil {
				return queries, err
			}
			queries++
			continue
		}
		queries++
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, inner := range one.Steps {
				if err := step(ctx, tx, asked, inner); err != nil {
					return err
				}
				queries++
			}
			return nil
		})
		if err != nil {
			return queries, err
		}
		queries++
	}
	return queries, nil
}

func step(ctx context.Context, on querier, asked work, one [2]int) error {
	text, n := one[0], one[1]
	rows, err := on.Query(ctx, asked.Texts[text], n)
	if err != nil {
		return err
	}
	defer rows.Close()
	var i, double int32
	var name string
	into := []any{&i}
	switch text {
	case wide:
		into = []any{&i, &double, &name}
	case hashes:
		into = []any{&i, &name}
	}
	count, sum := 0, 0
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		count++
		sum += int(i)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	isRight := count == n && sum == n*(n+1)/2 &&
		(text != wide || int(double) == 2*n && name == fmt.Sprint(n)) && (text != hashes || len(name) == 32)
	if !isRight {
		return wrong{fmt.Sprintf("text %d with %d: %d rows, sum %d", text, n, count, sum)}
	}
	return nil
}

// -- COPY -------------------------------------------------------------------------------------------------------------------

func copyOut(ctx context.Context, pool *pgxpool.Pool, asked work, _ int) (int, bool, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, false, err
	}
	defer conn.Release()
	for copies := range asked.Copies {
		var taken bytes.Buffer
		if _, err := conn.Conn().PgConn().CopyTo(ctx, &taken, asked.CopyOut); err != nil {
			return copies, false, err
		}
		if taken.String() != asked.Copied {
			return copies, false, wrong{"COPY has given other bytes"}
		}
	}
	return asked.Copies, false, nil
}

func copyIn(ctx context.Context, pool *pgxpool.Pool, asked work, _ int) (int, bool, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, false, err
	}
	defer conn.Release()
	for copies := range asked.Copies {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Conn().PgConn().CopyFrom(ctx, strings.NewReader(asked.Copied), asked.CopyIn)
			return err
		})
		if err != nil {
			return copies, false, err
		}
	}
	return asked.Copies, false, nil
}
