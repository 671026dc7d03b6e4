package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
)

type source struct {
	connection *pgconn.PgConn
	plans      map[string]*plan
	buffer     []byte
}

// The cached description of a prepared query.
type plan struct {
	name    string
	columns []column
}

type column struct {
	// `{"id":` for the first column, `,"name":` for the others.
	key    string
	encode func(out, value []byte) []byte
}

var binaryFormat = []int16{1}

// run writes the query's rows as NDJSON.
func (s *source) run(sql string, to io.Writer) error {
	plan, err := s.plan(sql)
	if err != nil {
		return err
	}
	rows := s.connection.ExecPrepared(context.Background(), plan.name, nil, nil, binaryFormat)
	out := s.buffer[:0]
	for rows.NextRow() {
		for index, value := range rows.Values() {
			column := &plan.columns[index]
			out = append(out, column.key...)
			if value == nil {
				out = append(out, "null"...)
			} else {
				out = column.encode(out, value)
			}
		}
		out = append(out, '}', '\n')
		if len(out) >= flushBytes {
			if _, err := to.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	s.buffer = out
	if _, err := rows.Close(); err != nil {
		return err
	}
	_, err = to.Write(out)
	return err
}

func (s *source) plan(sql string) (*plan, error) {
	if known := s.plans[sql]; known != nil {
		return known, nil
	}
	name := fmt.Sprintf("bench_%d", len(s.plans))
	described, err := s.connection.Prepare(context.Background(), name, sql, nil)
	if err != nil {
		return nil, err
	}
	made := &plan{name: name}
	for index, field := range described.Fields {
		encode := encoders[field.DataTypeOID]
		if encode == nil {
			return nil, fmt.Errorf("no encoder for type %d", field.DataTypeOID)
		}
		key, _ := json.Marshal(field.Name)
		before := byte(',')
		if index == 0 {
			before = '{'
		}
		made.columns = append(made.columns, column{key: string(before) + string(key) + ":", encode: encode})
	}
	s.plans[sql] = made
	return made, nil
}
