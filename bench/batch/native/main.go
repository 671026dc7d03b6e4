// pgx and lib/pq as the native peers of CASE=batch and CASE=copy: `native <library> <url>`, with library `pgx` or
// `lib-pq`. It answers lines of JSON on stdin, as bench/child.mjs does, with the same
// shapes and facts. `native latency <url>` is pgx in CASE=latency, where each trial has a URL of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

type request struct {
	Hello bool   `json:"hello"`
	Idle  int    `json:"idle"`
	Shape string `json:"shape"`
	// Executions, rows, or whatever the shape counts.
	Times int `json:"times"`
	// For CASE=copy: the file with the bytes to send.
	File string `json:"file"`
	// For CASE=latency: the server's URL, and the URL for the marks that begin and end the measured part.
	URL  string `json:"url"`
	Mark string `json:"mark"`
}

type reply map[string]any

// A shape runs its work the given number of times. The outer call makes beforehand what must not be timed.
type shape func(asked request) (work func() (reply, error), err error)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: native <pgx|lib-pq|latency> <url>")
		os.Exit(2)
	}
	open := map[string]func(context.Context, string) (map[string]shape, error){
		"pgx":     openPgx,
		"lib-pq":  openPq,
		"latency": openLatency,
	}[os.Args[1]]
	shapes, err := open(context.Background(), os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
		answer, err := respond(shapes, asked)
		if err != nil {
			answer = reply{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}

func respond(shapes map[string]shape, asked request) (reply, error) {
	switch {
	case asked.Hello:
		names := []string{}
		for name := range shapes {
			names = append(names, name)
		}
		return reply{"shapes": names, "version": runtime.Version()}, nil
	case asked.Idle > 0:
		return timed(func() (reply, error) {
			time.Sleep(time.Duration(asked.Idle) * time.Millisecond)
			return reply{}, nil
		})
	}
	made, known := shapes[asked.Shape]
	if !known {
		return nil, fmt.Errorf("there is no shape %s", asked.Shape)
	}
	work, err := made(asked)
	if err != nil {
		return nil, err
	}
	return timed(work)
}

func timed(work func() (reply, error)) (reply, error) {
	runtime.GC()
	cpu, start := cpuTime(), time.Now()
	result, err := work()
	if err != nil {
		return nil, err
	}
	if _, own := result["wall_ms"]; !own {
		result["wall_ms"] = milliseconds(time.Since(start))
	}
	result["cpu_ms"] = milliseconds(cpuTime() - cpu)
	return result, nil
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration.Nanoseconds()) / 1e6
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
