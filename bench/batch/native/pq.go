package main

import (
	"context"
	"database/sql"

	"github.com/lib/pq"
)

// openPq opens lib/pq's CopyIn, which is a prepared statement of database/sql inside a transaction. Cells are strings,
// because lib/pq would send bytes as hex.
func openPq(ctx context.Context, url string) (map[string]shape, error) {
	db, err := sql.Open("postgres", url)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		return nil, err
	}
	copied := func(table string, rows func(int) [][]any) shape {
		var made [][]any
		return func(asked request) (func() (reply, error), error) {
			if len(made) != asked.Times {
				made = rows(asked.Times)
			}
			columns := columnsOf(len(made[0]), table == "bench_3col")
			return func() (reply, error) { return copyIn(ctx, db, table, columns, made) }, nil
		}
	}
	return map[string]shape{
		"in_rows_16x32": copied("bench_16x32", func(rows int) [][]any { return textRows(rows, 16, 32) }),
		"in_rows_3x8":   copied("bench_3x8", func(rows int) [][]any { return textRows(rows, 3, 8) }),
		"in_csv_3col":   copied("bench_3col", typedRows),
	}, nil
}

func copyIn(ctx context.Context, db *sql.DB, table string, columns []string, rows [][]any) (reply, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // has no effect after Commit
	statement, err := tx.PrepareContext(ctx, pq.CopyIn(table, columns...))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if _, err := statement.ExecContext(ctx, row...); err != nil {
			return nil, err
		}
	}
	result, err := statement.ExecContext(ctx)
	if err != nil {
		return nil, err
	}
	if err := statement.Close(); err != nil {
		return nil, err
	}
	count, err := result.RowsAffected()
	if err != nil {
		return nil, err
	}
	return reply{"rows": count}, tx.Commit()
}
