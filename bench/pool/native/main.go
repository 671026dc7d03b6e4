// pgxpool as the native peer of CASE=pool: `native <max> <direct> <pgbouncer>`. It answers lines of JSON on stdin, as
// bench/child.mjs does, with the same shapes, checks and facts. The work comes with the first request, so that
// every library has the same work.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type request struct {
	Hello    bool    `json:"hello"`
	Work     *work   `json:"work"`
	Shape    string  `json:"shape"`
	Through  string  `json:"through"`
	Workers  int     `json:"workers"`
	Duration float64 `json:"duration"`
	Times    int     `json:"times"`
}

// The exports of bench/pool/shapes.mjs.
type work struct {
	Select1  string              `json:"select_1"`
	Texts    []string            `json:"texts"`
	Intended string              `json:"intended"`
	Windows  map[string][]window `json:"windows"`
	Copies   int                 `json:"copies"`
	CopyOut  string              `json:"copy_out"`
	CopyIn   string              `json:"copy_in"`
	Copied   string              `json:"copied"`
}

type window []item

type item struct {
	IsTransaction bool     `json:"isTransaction"`
	Steps         [][2]int `json:"steps"`
}

type reply map[string]any

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: native <max> <direct> <pgbouncer>")
		os.Exit(2)
	}
	max, err := strconv.Atoi(os.Args[1])
	fatal(err)
	ctx := context.Background()
	pools := map[string]*pgxpool.Pool{}
	// Through PgBouncer 1.18 no statement has a name.
	for through, mode := range map[string]pgx.QueryExecMode{
		"direct":    pgx.QueryExecModeCacheStatement,
		"pgbouncer": pgx.QueryExecModeExec,
	} {
		url := os.Args[2]
		if through == "pgbouncer" {
			url = os.Args[3]
		}
		pools[through], err = openPool(ctx, url, int32(max), mode)
		fatal(err)
	}
	var asked work
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var one request
		fatal(json.Unmarshal(line, &one))
		if one.Work != nil {
			asked = *one.Work
		}
		answer, err := respond(ctx, pools, asked, one)
		if err != nil {
			answer = reply{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func openPool(ctx context.Context, url string, max int32, mode pgx.QueryExecMode) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = max
	config.MaxConnLifetime = time.Hour
	config.MaxConnIdleTime = time.Hour
	config.ConnConfig.DefaultQueryExecMode = mode
	return pgxpool.NewWithConfig(ctx, config)
}

func respond(ctx context.Context, pools map[string]*pgxpool.Pool, asked work, one request) (reply, error) {
	if one.Hello {
		shapes := []string{"acquire_release"}
		for shape := range ways {
			shapes = append(shapes, shape)
		}
		return reply{"shapes": shapes, "version": runtime.Version()}, nil
	}
	pool := pools[one.Through]
	if one.Shape == "acquire_release" {
		return timed(func() (reply, error) { return pairs(ctx, pool, one.Times) })
	}
	way, known := ways[one.Shape]
	if !known {
		return nil, fmt.Errorf("there is no shape %s", one.Shape)
	}
	duration := time.Duration(one.Duration * float64(time.Millisecond))
	return timed(func() (reply, error) { return perform(ctx, pool, asked, way, one.Workers, duration) })
}

func timed(work func() (reply, error)) (reply, error) {
	cpu, start := cpuTime(), time.Now()
	result, err := work()
	if err != nil {
		return nil, err
	}
	result["wall_ms"] = milliseconds(time.Since(start))
	result["cpu_ms"] = milliseconds(cpuTime() - cpu)
	return result, nil
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration.Nanoseconds()) / 1e6
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	fatal(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
