// pgx, tuned by hand: the native peer of CASE=stream and CASE=replay.
//
// One connection, one prepared statement per query, every column in binary. Values are read in place from pgx's read
// buffer, and JSON is appended to one reused buffer, which goes to a discarding writer in pieces of 64 KiB. The bytes
// are those of pgz-edge, which the case checks by hash. It answers lines of JSON on stdin, as bench/child.mjs does.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const flushBytes = 64 << 10

type request struct {
	Hello bool   `json:"hello"`
	Idle  int    `json:"idle"`
	SQL   string `json:"sql"`
	Times int    `json:"times"`
	Check bool   `json:"check"`
}

type reply map[string]any

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pgx <url>")
		os.Exit(2)
	}
	connection, err := pgconn.Connect(context.Background(), os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	source := &source{connection: connection, plans: map[string]*plan{}}
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		answer, err := source.answer(asked)
		if err != nil {
			answer = reply{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}

func (s *source) answer(asked request) (reply, error) {
	switch {
	case asked.Hello:
		return reply{"backend": s.connection.PID(), "version": runtime.Version()}, nil
	case asked.Idle > 0:
		return timed(func() (reply, error) {
			time.Sleep(time.Duration(asked.Idle) * time.Millisecond)
			return reply{}, nil
		})
	case asked.Check:
		all := &checked{hash: sha256.New()}
		err := s.run(asked.SQL, all)
		return reply{"bytes": all.bytes, "sha256": hex.EncodeToString(all.hash.Sum(nil)), "lines": all.lines}, err
	}
	return timed(func() (reply, error) {
		discarded := &counter{}
		for range max(asked.Times, 1) {
			if err := s.run(asked.SQL, discarded); err != nil {
				return nil, err
			}
		}
		return reply{"bytes": discarded.bytes}, nil
	})
}

func timed(work func() (reply, error)) (reply, error) {
	runtime.GC()
	cpu, start := cpuTime(), time.Now()
	result, err := work()
	if err != nil {
		return nil, err
	}
	result["wall_ms"] = float64(time.Since(start).Nanoseconds()) / 1e6
	result["cpu_ms"] = float64((cpuTime() - cpu).Nanoseconds()) / 1e6
	return result, nil
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

type counter struct{ bytes int }

func (c *counter) Write(piece []byte) (int, error) {
	c.bytes += len(piece)
	return len(piece), nil
}

type checked struct {
	hash         hash.Hash
	bytes, lines int
}

func (c *checked) Write(piece []byte) (int, error) {
	c.bytes += len(piece)
	for _, b := range piece {
		if b == '\n' {
			c.lines++
		}
	}
	return c.hash.Write(piece)
}

var _ io.Writer = (*checked)(nil)
