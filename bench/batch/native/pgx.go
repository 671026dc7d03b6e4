package main

import (
	"bytes"
	"context"
	"io"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	harbors     = "SELECT id, name FROM harbors LIMIT $1"
	insert      = "INSERT INTO bench_write (id, name, score) VALUES ($1, $2, $3)"
	insertWide  = "INSERT INTO bench_wide VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
	wideColumns = 16
	wideSize    = 32
)

type session struct {
	ctx  context.Context
	conn *pgx.Conn
}

func openPgx(ctx context.Context, url string) (map[string]shape, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	for _, text := range []string{
		"create temp table harbors (id serial primary key, name varchar(255) not null)",
		"insert into harbors (name) select 'Harbor ' || i from generate_series(1, 100) i",
	} {
		if _, err := conn.Exec(ctx, text); err != nil {
			return nil, err
		}
	}
	s := &session{ctx, conn}
	return map[string]shape{
		"count":                 s.reads(s.count),
		"rows":                  s.reads(s.rows),
		"inserts_batch_100":     s.typed(s.insertsBatch),
		"insert_exec":           s.typed(s.insertEach(insert)),
		"insert_prepared":       s.typed(s.insertPrepared),
		"insert_tx":             s.typed(s.inTransaction(insert)),
		"insert_serial":         s.wide(s.inTransaction(insertWide)),
		"insert_pipelined_100":  s.wide(s.pipelined(100)),
		"insert_pipelined_1000": s.wide(s.pipelined(1000)),
		"in_rows_16x32":         s.copyRows("bench_16x32", func(rows int) [][]any { return textRows(rows, 16, 32) }),
		"in_rows_3x8":           s.copyRows("bench_3x8", func(rows int) [][]any { return textRows(rows, 3, 8) }),
		"in_bytes_16x32":        s.copyBytes("COPY bench_16x32 FROM STDIN"),
		"in_bytes_3x8":          s.copyBytes("COPY bench_3x8 FROM STDIN"),
		"in_binary_3col":        s.copyRows("bench_3col", typedRows),
		"in_csv_3col":           s.copyBytes("COPY bench_3col FROM STDIN (FORMAT csv)"),
		"out_text":              s.copyOut("COPY bench_out_16x32 TO STDOUT"),
		"out_binary":            s.copyOut("COPY bench_out_16x32 TO STDOUT (FORMAT binary)"),
		"out_binary_3col":       s.copyOut("COPY bench_out_3col TO STDOUT (FORMAT binary)"),
		"out_csv_3col":          s.copyOut("COPY bench_out_3col TO STDOUT (FORMAT csv)"),
	}, nil
}

// -- a batch of reads -------------------------------------------------------------------------------------------------------

func (s *session) reads(take func(results pgx.BatchResults, times int) (reply, error)) shape {
	return func(asked request) (func() (reply, error), error) {
		return func() (reply, error) {
			batch := &pgx.Batch{}
			for index := range asked.Times {
				batch.Queue(harbors, index%10+1)
			}
			results := s.conn.SendBatch(s.ctx, batch)
			got, err := take(results, asked.Times)
			if err != nil {
				return nil, err
			}
			return got, results.Close()
		}, nil
	}
}

func (s *session) count(results pgx.BatchResults, times int) (reply, error) {
	rows := int64(0)
	for range times {
		tag, err := results.Exec()
		if err != nil {
			return nil, err
		}
		rows += tag.RowsAffected()
	}
	return reply{"rows": rows}, nil
}

func (s *session) rows(results pgx.BatchResults, times int) (reply, error) {
	count, sum, letters := 0, 0, 0
	for range times {
		rows, err := results.Query()
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var id int32
			var name string
			if err := rows.Scan(&id, &name); err != nil {
				return nil, err
			}
			count++
			sum += int(id)
			letters += len(name)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return reply{"rows": count, "sum": sum, "letters": letters}, nil
}

// -- inserts ----------------------------------------------------------------------------------------------------------------

type inserting func(rows [][]any) error

func (s *session) typed(insert inserting) shape { return s.inserted(insert, typedRows) }

func (s *session) wide(insert inserting) shape {
	return s.inserted(insert, func(rows int) [][]any { return textRows(rows, wideColumns, wideSize) })
}

func (s *session) inserted(insert inserting, rows func(int) [][]any) shape {
	return func(asked request) (func() (reply, error), error) {
		made := rows(asked.Times)
		return func() (reply, error) { return reply{}, insert(made) }, nil
	}
}

type executor interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

func (s *session) each(on executor, text string, rows [][]any) error {
	for _, row := range rows {
		if _, err := on.Exec(s.ctx, text, row...); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) insertEach(text string) inserting {
	return func(rows [][]any) error { return s.each(s.conn, text, rows) }
}

func (s *session) insertPrepared(rows [][]any) error {
	if _, err := s.conn.Prepare(s.ctx, "insert_prepared", insert); err != nil {
		return err
	}
	return s.each(s.conn, "insert_prepared", rows)
}

func (s *session) inTransaction(text string) inserting {
	return func(rows [][]any) error {
		return pgx.BeginFunc(s.ctx, s.conn, func(tx pgx.Tx) error { return s.each(tx, text, rows) })
	}
}

func (s *session) send(on executor, text string, rows [][]any) error {
	batch := &pgx.Batch{}
	for _, row := range rows {
		batch.Queue(text, row...)
	}
	results := on.SendBatch(s.ctx, batch)
	for range rows {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	return results.Close()
}

func (s *session) insertsBatch(rows [][]any) error {
	for from := 0; from < len(rows); from += 100 {
		if err := s.send(s.conn, insert, rows[from:min(from+100, len(rows))]); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) pipelined(size int) inserting {
	return func(rows [][]any) error {
		return pgx.BeginFunc(s.ctx, s.conn, func(tx pgx.Tx) error {
			for from := 0; from < len(rows); from += size {
				if err := s.send(tx, insertWide, rows[from:min(from+size, len(rows))]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// -- COPY -------------------------------------------------------------------------------------------------------------------

func columnsOf(count int, typed bool) []string {
	if typed {
		return []string{"id", "name", "score"}
	}
	names := make([]string, count)
	for index := range names {
		names[index] = "c" + string(rune('a'+index)) // as bench/copy/content.mjs
	}
	return names
}

func (s *session) copyRows(table string, rows func(int) [][]any) shape {
	var made [][]any
	return func(asked request) (func() (reply, error), error) {
		if len(made) != asked.Times {
			made = rows(asked.Times)
		}
		columns := columnsOf(len(made[0]), table == "bench_3col")
		return func() (reply, error) {
			count, err := s.conn.CopyFrom(s.ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(made))
			return reply{"rows": count}, err
		}, nil
	}
}

func (s *session) copyBytes(text string) shape {
	var name string
	var content []byte
	return func(asked request) (func() (reply, error), error) {
		if name != asked.File {
			read, err := os.ReadFile(asked.File)
			if err != nil {
				return nil, err
			}
			name, content = asked.File, read
		}
		return func() (reply, error) {
			tag, err := s.conn.PgConn().CopyFrom(s.ctx, bytes.NewReader(content), text)
			return reply{"rows": tag.RowsAffected()}, err
		}, nil
	}
}

type counter struct{ bytes int }

func (c *counter) Write(piece []byte) (int, error) {
	c.bytes += len(piece)
	return len(piece), nil
}

var _ io.Writer = (*counter)(nil)

func (s *session) copyOut(text string) shape {
	return func(request) (func() (reply, error), error) {
		return func() (reply, error) {
			discarded := &counter{}
			tag, err := s.conn.PgConn().CopyTo(s.ctx, discarded, text)
			return reply{"bytes": discarded.bytes, "rows": tag.RowsAffected()}, err
		}, nil
	}
}
