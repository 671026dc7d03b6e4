package main

import "fmt"

const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// textRows returns the rows of bench/lib/data.mjs: the same generator, the same seed.
func textRows(rows, columns, size int) [][]any {
	state := uint32(1)
	made := make([][]any, rows)
	cell := make([]byte, size)
	for row := range made {
		made[row] = make([]any, columns)
		for column := range made[row] {
			for at := range cell {
				state = state*1664525 + 1013904223
				cell[at] = alphabet[(state>>16)%62]
			}
			made[row][column] = string(cell)
		}
	}
	return made
}

func typedRow(index int) []any {
	return []any{int32(index), fmt.Sprintf("name-%d", index), float64(index) / 4}
}

func typedRows(rows int) [][]any {
	made := make([][]any, rows)
	for index := range made {
		made[index] = typedRow(index)
	}
	return made
}
